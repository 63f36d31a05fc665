// Package terrace is the Go binding of Terrace, an embedded ordered key-value store that reads and
// writes LevelDB's file format.
//
//	db, err := terrace.Open("cities", nil)
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	err = db.Put([]byte("CH/Bern"), []byte("46.95,7.45"), nil)
//
// Programs that use goleveldb need no change of their code: the module in the directory goleveldb
// has goleveldb's packages.
//
// # Goroutines
//
// Every method of a DB, a Snapshot and a Txn may be called from several goroutines. One goroutine at
// a time uses an Iterator or a Batch. Keys and values of arguments are copied before a method
// returns.
//
// # Closing
//
// Close waits for the calls in progress and ends all iterators, snapshots and transactions of the
// database. Their later calls return ErrClosed. The garbage collector frees forgotten objects, also a
// forgotten DB. A process that ends without Close loses no write that has returned.
package terrace
