#!/bin/bash
# plyvel beside Python's `multiprocessing` with the start method fork: workers read through the
# database of their parent and have databases of their own; a process that forks and exits, as
# daemons do, continues to write. plyvel's source distribution is compiled against this library.
. "$(dirname "$0")/common.sh"
PY=${PYTHON:-python3}
INCLUDE=$(readlink -f "$(dirname "$0")/../../../include")
SITE="$SCRATCH/site"
if [ ! -d "$SITE/plyvel" ]; then
  # Under another name until it is complete.
  rm -rf "$SITE.new"
  CPLUS_INCLUDE_PATH="$INCLUDE" LIBRARY_PATH="$LIBDIR" \
    $PY -m pip install -q --no-deps --no-binary plyvel --target "$SITE.new" plyvel >"$SCRATCH/pip.log" 2>&1 \
    || die "pip install plyvel: $(tail -1 "$SCRATCH/pip.log")"
  mv "$SITE.new" "$SITE"
fi
export PYTHONPATH="$SITE"
LABEL=plyvel-fork
uselib_logged $PY -c 'import plyvel' >/dev/null 2>&1
check_loaded loaded_by_log
rm -rf "$SCRATCH/t" && mkdir -p "$SCRATCH/t" && cd "$SCRATCH/t" || exit 2
run_case() { # NAME
  local t; t=$(now)
  # The pipe ends when the last forked process has exited.
  uselib timeout 300 $PY "$SCRATCH/cases.py" "$1" 2>&1 | cat >"$SCRATCH/$1.out"
  if [ "$(tail -1 "$SCRATCH/$1.out")" = ok ]; then
    pass "$1" "$(since "$t")"
  else
    fail "$1" "$(since "$t")" "$(tail -1 "$SCRATCH/$1.out")"
  fi
}
cat >"$SCRATCH/cases.py" <<'P'
import multiprocessing, os, shutil, sys, threading
import plyvel

KEYS = 5000
stop = threading.Event()


def key(n):
    return b'key %06d' % n


def open_filled(name):
    db = plyvel.DB(name, create_if_missing=True, write_buffer_size=1 << 16)
    for n in range(KEYS):
        db.put(key(n), b'%d' % n * 20)
    return db


def start_threads(db):
    def write(thread):
        n = 0
        while not stop.is_set():
            db.put(b'thread %d %04d' % (thread, n % 1000), b'v' * 100)
            n += 1
    for thread in range(4):
        threading.Thread(target=write, args=(thread,), daemon=True).start()


def work(seed):
    """A worker: reads the parent's database, fills and flushes its own."""
    for n in range(seed % 7, KEYS, 97):
        try:
            assert db.get(key(n)) == b'%d' % n * 20, n
        except plyvel.IOError:
            pass  # the parent has compacted the table away
    name = 'own-%d' % seed
    own = open_filled(name)
    own.compact_range()
    assert sum(1 for _ in own) == KEYS
    own.close()
    shutil.rmtree(name)
    return seed


def workers():
    global db
    db = open_filled('db')
    start_threads(db)
    context = multiprocessing.get_context('fork')
    for _ in range(10):
        with context.Pool(4) as pool:
            assert pool.map_async(work, range(8)).get(timeout=120) == list(range(8))
    stop.set()


def refused():
    db = open_filled('refused')
    if (child := os.fork()) == 0:
        try:
            db.put(b'child', b'')
        except plyvel.Error:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    db.put(b'parent', b'')
    assert db.get(b'child') is None


def daemon():
    db = open_filled('daemon')
    db.put(b'before', b'0')
    path = os.path.abspath('daemon')
    for _ in range(2):
        if os.fork() != 0:
            os._exit(0)
        os.setsid()
        os.chdir('/')
        db.put(b'after', b'1')
    for n in range(KEYS):
        db.put(b'more %06d' % n, b'x' * 100)
    db.compact_range()
    assert db.get(b'before') == b'0' and db.get(b'after') == b'1'
    db.close()
    db = plyvel.DB(path)
    assert sum(1 for _ in db) == 2 * KEYS + 2


globals()[sys.argv[1]]()
print('ok', flush=True)
P
for case in workers refused daemon; do run_case $case; done
finish
