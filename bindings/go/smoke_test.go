package terrace

import (
	"fmt"
	"testing"
)

func TestSmoke(t *testing.T) {
	db, err := Open(t.TempDir()+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := db.Put(fmt.Appendf(nil, "k%04d", i), fmt.Appendf(nil, "v%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	v, err := db.Get([]byte("k0500"))
	t.Log(string(v), err)
	it := db.NewIterator(nil)
	n := 0
	for it.Next() {
		n++
	}
	t.Log(n, it.Error(), it.Prev(), string(it.Key()), it.Prev(), string(it.Key()), it.Next(), string(it.Key()), it.Next())
	n = 0
	for it.Prev() {
		n++
	}
	t.Log(n)
	st, _ := db.Stats()
	t.Log(st.Text)
	s, _ := db.Property("leveldb.stats")
	t.Log(s)
	t.Log(db.Close(), it.Next(), it.Error(), db.Put(nil, nil, nil))
}
func BenchmarkGet(b *testing.B) {
	db, _ := Open(b.TempDir()+"/x", nil)
	k := []byte("key")
	db.Put(k, make([]byte, 100), nil)
	b.ReportAllocs()
	for b.Loop() {
		db.Get(k)
	}
}
func BenchmarkPut(b *testing.B) {
	db, _ := Open(b.TempDir()+"/x", nil)
	k := []byte("key")
	v := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		db.Put(k, v, nil)
	}
}
func BenchmarkIter(b *testing.B) {
	db, _ := Open(b.TempDir()+"/x", nil)
	for i := range 100000 {
		db.Put(fmt.Appendf(nil, "k%06d", i), make([]byte, 100), nil)
	}
	b.ReportAllocs()
	it := db.NewIterator(nil)
	for b.Loop() {
		if !it.Next() {
			it.First()
		}
	}
}
