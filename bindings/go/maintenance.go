package terrace

// #include "terrace/terrace.h"
import "C"

// Verify checks every file of a database that is not open for writing, and changes nothing. Returns a
// report with one line for each problem and a summary line, and the number of problems.
func Verify(path string, options *Options) (report string, problems int, err error) {
	err = closedDatabase(path, options, func(e *engineOptions, cause **C.char) {
		var count C.size_t
		report = takeString(C.terrace_verify(e.options, e.name, &count, cause))
		problems = int(count)
	})
	return report, problems, err
}

// Repair repairs a damaged database that is not open, and keeps all readable entries. Returns a report
// of the actions. With dryRun it writes nothing, and reports the planned actions.
func Repair(path string, options *Options, dryRun bool) (report string, err error) {
	err = closedDatabase(path, options, func(e *engineOptions, cause **C.char) {
		report = takeString(C.terrace_repair(e.options, e.name, boolean(dryRun), cause))
	})
	return report, err
}

// Destroy removes the database in the directory path, and the directory if it is then empty.
func Destroy(path string, options *Options) error {
	return closedDatabase(path, options, func(e *engineOptions, cause **C.char) {
		C.terrace_destroy_db(e.options, e.name, cause)
	})
}

func closedDatabase(path string, options *Options, work func(*engineOptions, **C.char)) error {
	e, err := newEngineOptions(path, options)
	if err != nil {
		return err
	}
	defer e.free()
	var cause *C.char
	work(e, &cause)
	return takeError(cause)
}
