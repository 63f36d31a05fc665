module terracedb.org/go/suites/bench

go 1.24

require github.com/jmhodges/levigo v1.0.0
