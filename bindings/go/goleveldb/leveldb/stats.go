package leveldb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/syndtr/goleveldb/leveldb/cache"
	terrace "terracedb.org/go"
)

// DBStats are statistics of a database. The engine counts the bytes of compactions and flushes in
// mebibytes, and has no counts of its cache of files.
type DBStats struct {
	WriteDelayCount    int32
	WriteDelayDuration time.Duration
	WritePaused        bool

	AliveSnapshots int32
	AliveIterators int32

	IOWrite uint64 // bytes that flushes and compactions wrote
	IORead  uint64 // bytes that compactions read

	BlockCacheSize    int
	OpenedTablesCount int // number of tables

	FileCache  cache.Stats // zero
	BlockCache cache.Stats // size, hits and misses

	LevelSizes        Sizes
	LevelTablesCounts []int
	LevelRead         Sizes
	LevelWrite        Sizes
	LevelDurations    []time.Duration

	MemComp       uint32 // flushes
	Level0Comp    uint32 // compactions of all levels
	NonLevel0Comp uint32 // zero: counted by Level0Comp
	SeekComp      uint32 // zero: counted by Level0Comp
}

// Stats stores statistics in s.
func (db *DB) Stats(s *DBStats) error {
	stats, err := db.db.Stats()
	if err != nil {
		return translate(err, ErrClosed)
	}
	compactions, err := db.db.Property("leveldb.stats")
	if err != nil {
		return translate(err, ErrClosed)
	}
	*s = DBStats{
		WritePaused:       stats.WouldWait,
		AliveSnapshots:    int32(stats.Snapshots),
		AliveIterators:    int32(stats.Iterators),
		LevelSizes:        s.LevelSizes[:0],
		LevelTablesCounts: s.LevelTablesCounts[:0],
		LevelRead:         s.LevelRead[:0],
		LevelWrite:        s.LevelWrite[:0],
		LevelDurations:    s.LevelDurations[:0],
	}
	s.setEngineStats(stats.Text)
	s.setLevels(stats.Levels, compactions)
	return nil
}

// setEngineStats reads the property terrace.stats.
func (s *DBStats) setEngineStats(text string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		number := func(i int) int64 {
			if i >= len(words) {
				return 0
			}
			value, _ := strconv.ParseInt(strings.TrimSuffix(words[i], ","), 10, 64)
			return value
		}
		switch words[0] + " " + words[1] {
		case "blocks hits": // blocks hits N misses N P %
			s.BlockCache.HitCount, s.BlockCache.MissCount = number(2), number(4)
		case "writes delayed": // writes delayed N for M us, stopped N for M us
			s.WriteDelayCount = int32(number(2) + number(7))
			s.WriteDelayDuration = time.Duration(number(4)+number(9)) * time.Microsecond
		case "work flushes": // work NAME N us M, ..
			s.MemComp = uint32(number(2))
		case "work compactions":
			s.Level0Comp = uint32(number(2))
		case "memory cache":
			s.BlockCacheSize = int(number(2))
			s.BlockCache.Size = number(2)
		}
	}
}

// setLevels takes the sizes of levels, and reads the property leveldb.stats: rows of level, number of
// tables, MiB, seconds, MiB read, MiB written.
func (s *DBStats) setLevels(levels []terrace.Level, compactions string) {
	rows := map[int][]float64{}
	for line := range strings.Lines(compactions) {
		words := strings.Fields(line)
		if len(words) != 6 {
			continue
		}
		row := make([]float64, len(words))
		for i, word := range words {
			row[i], _ = strconv.ParseFloat(word, 64)
		}
		rows[int(row[0])] = row
	}
	for level, size := range levels {
		row := rows[level]
		if row == nil {
			row = make([]float64, 6)
		}
		s.LevelSizes = append(s.LevelSizes, int64(size.Bytes))
		s.LevelTablesCounts = append(s.LevelTablesCounts, size.Tables)
		s.LevelDurations = append(s.LevelDurations, time.Duration(row[3]*float64(time.Second)))
		s.LevelRead = append(s.LevelRead, int64(row[4]*(1<<20)))
		s.LevelWrite = append(s.LevelWrite, int64(row[5]*(1<<20)))
		s.OpenedTablesCount += size.Tables
	}
	s.IORead, s.IOWrite = uint64(s.LevelRead.Sum()), uint64(s.LevelWrite.Sum())
}

// GetProperty returns a property in goleveldb's form: leveldb.num-files-at-level<N>, stats, compcount,
// iostats, writedelay, sstables, blockpool, cachedblock, openedtables, alivesnaps, aliveiters. Names that
// begin with "terrace." are the engine's. Returns ErrNotFound for another name.
func (db *DB) GetProperty(name string) (string, error) {
	short, ok := strings.CutPrefix(name, "leveldb.")
	if level, isCount := strings.CutPrefix(short, "num-files-at-level"); ok && isCount {
		return db.numFilesAtLevel(level)
	}
	if !ok || short == "sstables" {
		value, err := db.db.Property(name)
		return value, translate(err, ErrClosed)
	}
	var s DBStats
	if err := db.Stats(&s); err != nil {
		return "", err
	}
	switch short {
	case "stats":
		return s.table(), nil
	case "compcount":
		return fmt.Sprintf("MemComp:%d Level0Comp:%d NonLevel0Comp:%d SeekComp:%d",
			s.MemComp, s.Level0Comp, s.NonLevel0Comp, s.SeekComp), nil
	case "iostats":
		return fmt.Sprintf("Read(MB):%.5f Write(MB):%.5f", mib(s.IORead), mib(s.IOWrite)), nil
	case "writedelay":
		return fmt.Sprintf("DelayN:%d Delay:%s Paused:%t", s.WriteDelayCount, s.WriteDelayDuration, s.WritePaused), nil
	case "blockpool":
		return "<nil>", nil // goleveldb's text for a database without this pool of Go
	case "cachedblock":
		return strconv.Itoa(s.BlockCacheSize), nil
	case "openedtables":
		return strconv.Itoa(s.OpenedTablesCount), nil
	case "alivesnaps":
		return strconv.Itoa(int(s.AliveSnapshots)), nil
	case "aliveiters":
		return strconv.Itoa(int(s.AliveIterators)), nil
	}
	return "", ErrNotFound
}

// numFilesAtLevel returns the number of tables of a level, which is 0 beyond the last one.
func (db *DB) numFilesAtLevel(text string) (string, error) {
	level, err := strconv.ParseUint(text, 10, 0)
	if err == nil {
		text = strconv.FormatUint(level, 10)
	}
	files, propertyErr := db.db.Property("leveldb.num-files-at-level" + text)
	if err == nil && propertyErr == terrace.ErrNotFound {
		return "0", nil
	}
	return files, translate(propertyErr, ErrClosed)
}

func mib[T int64 | uint64](bytes T) float64 { return float64(bytes) / (1 << 20) }

// table returns the property leveldb.stats, whose columns programs parse.
func (s *DBStats) table() string {
	const rule = "-------+------------+---------------+---------------+---------------+---------------\n"
	var text strings.Builder
	text.WriteString("Compactions\n" +
		" Level |   Tables   |    Size(MB)   |    Time(sec)  |    Read(MB)   |   Write(MB)\n" + rule)
	row := func(name string, tables int, size int64, duration time.Duration, read, write int64) {
		fmt.Fprintf(&text, " %-5s | %10d | %13.5f | %13.5f | %13.5f | %13.5f\n",
			name, tables, mib(size), duration.Seconds(), mib(read), mib(write))
	}
	tables, duration := 0, time.Duration(0)
	for level, count := range s.LevelTablesCounts {
		if count == 0 && s.LevelDurations[level] == 0 {
			continue
		}
		tables += count
		duration += s.LevelDurations[level]
		row(fmt.Sprintf("%3d", level), count, s.LevelSizes[level], s.LevelDurations[level], s.LevelRead[level], s.LevelWrite[level])
	}
	text.WriteString(rule)
	row("Total", tables, s.LevelSizes.Sum(), duration, s.LevelRead.Sum(), s.LevelWrite.Sum())
	return text.String()
}
