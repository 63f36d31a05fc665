package terrace

import (
	"bytes"
	"testing"
)

// Any bytes are a batch that writes back the same bytes, or an error.
func FuzzBatch(f *testing.F) {
	f.Add([]byte("\x01\x01k\x05value\x00\x01d"))
	f.Add([]byte("\x01\xff\xff\xff\xff\x0fk"))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, records []byte) {
		var batch, copied Batch
		if err := batch.LoadRecords(records); err != nil {
			return
		}
		check(t, batch.Operations(copied.Put, copied.Delete))
		if copied.Len() != batch.Len() || len(copied.Records()) > len(records) {
			t.Errorf("%q became %q", records, copied.Records())
		}
		db, err := Open("db", &Options{Memory: NewMemory()})
		check(t, err)
		defer db.Close()
		check(t, db.Write(&copied, nil))
		if len(copied.Records()) == len(records) && !bytes.Equal(copied.Records(), records) {
			t.Errorf("%q became %q", records, copied.Records())
		}
	})
}
