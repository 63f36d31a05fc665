// Package leveldb has goleveldb's interface to Terrace.
//
// A program that uses goleveldb changes one line of its go.mod:
//
//	replace github.com/syndtr/goleveldb => github.com/terrace-db/goleveldb v0.1.0
//
// The files stay LevelDB's: goleveldb opens the database again after the line is removed.
package leveldb
