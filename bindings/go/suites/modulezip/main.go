// Modulezip writes a version of a module in the form of Go's module proxy: .info, .mod, .zip and list.
//
//	go run main.go MODULE VERSION SOURCE PROXY
//
// It omits the directory suites and other modules inside SOURCE, tests and scripts.
package main

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	module, version, source, proxy := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	directory := filepath.Join(proxy, module, "@v")
	check(os.MkdirAll(directory, 0o755))
	place := filepath.Join(directory, version)
	goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	check(err)
	check(os.WriteFile(place+".mod", goMod, 0o644))
	check(os.WriteFile(place+".info", fmt.Appendf(nil, `{"Version":%q,"Time":"2000-01-01T00:00:00Z"}`, version), 0o644))
	check(os.WriteFile(filepath.Join(directory, "list"), []byte(version+"\n"), 0o644))
	out, err := os.Create(place + ".zip")
	check(err)
	archive := zip.NewWriter(out)
	for _, name := range moduleFiles(source) {
		contents, err := os.ReadFile(filepath.Join(source, name))
		check(err)
		entry, err := archive.Create(module + "@" + version + "/" + name)
		check(err)
		_, err = entry.Write(contents)
		check(err)
	}
	check(archive.Close())
	check(out.Close())
}

// moduleFiles returns the names of the module's files, relative to source.
func moduleFiles(source string) (names []string) {
	check(filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		check(err)
		name, err := filepath.Rel(source, path)
		check(err)
		if entry.IsDir() {
			_, missing := os.Stat(filepath.Join(path, "go.mod"))
			if name == "suites" || (name != "." && missing == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if isPublished(name) {
			names = append(names, name)
		}
		return nil
	}))
	slices.Sort(names)
	return names
}

func isPublished(name string) bool {
	kinds := []string{".go", ".mod", ".md", ".h", ".a"}
	base := filepath.Base(name)
	return (slices.Contains(kinds, filepath.Ext(name)) || strings.HasPrefix(base, "LICENSE")) && !strings.HasSuffix(name, "_test.go")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
