//! Statistics, sizes, compaction, checkpoints, verification and repair.

use std::fmt::Write;
use std::path::PathBuf;

use jni_sys::jlong;
use terrace::{Db, ErrorKind, RepairOptions, Ticker, Timer};

use crate::call::{call, items, new_items, optional_bytes, text};
use crate::database::required;
use crate::options::{UserOptions, user_options};
use crate::raw::{ByteArray, Class, Env, Handle, LongArray, Object, ObjectArray};

/// Returns lines `name value`.
pub(crate) extern "system" fn stats<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) -> ByteArray<'a> {
    call(env, class, ByteArray::NULL, || {
        let stats = required(db)?.stats();
        let mut rows: Vec<(String, u64)> = Vec::new();
        rows.extend(Ticker::all().map(|ticker| (ticker.name().to_owned(), stats.ticker(ticker))));
        for timer in Timer::all() {
            let data = stats.timer(timer);
            rows.push((format!("{}_count", timer.name()), data.count));
            rows.push((format!("{}_micros", timer.name()), data.sum_micros));
        }
        for (level, data) in stats.levels.iter().enumerate() {
            rows.push((format!("level{level}_files"), data.files as u64));
            rows.push((format!("level{level}_bytes"), data.bytes));
        }
        rows.push(("memory_bytes".into(), stats.memory.total() as u64));
        rows.push(("immutable_memtables".into(), stats.immutable_memtables as u64));
        rows.push(("last_sequence".into(), stats.last_sequence));
        let mut lines = String::new();
        for (name, value) in rows {
            // Writing to a `String` cannot fail.
            let _ = writeln!(lines, "{} {value}", name.replace(' ', "_"));
        }
        Ok(env.new_byte_array(lines.as_bytes())?)
    })
}

/// `bounds` are the starts and the limits of the ranges, in turn.
pub(crate) extern "system" fn approximate_sizes<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    bounds: ObjectArray<'a>,
) -> LongArray<'a> {
    call(env, class, LongArray::NULL, || {
        let bounds = items(env, bounds, "bound")?;
        let (ranges, _) = bounds.as_chunks::<2>();
        let ranges: Vec<(&[u8], &[u8])> = ranges.iter().map(|[start, limit]| (&**start, &**limit)).collect();
        let db = required(db)?;
        // LevelDB's writers wait for the flush of a full memtable, so its sizes include that one.
        // A handle that only reads has no flush.
        if db.stats().immutable_memtables > 0
            && let Err(error) = db.flush()
            && error.kind() != ErrorKind::NotSupported
        {
            return Err(error.into());
        }
        let sizes = db.approximate_sizes(&ranges)?;
        let sizes: Vec<i64> = sizes.into_iter().map(|size| size.try_into().unwrap_or(i64::MAX)).collect();
        Ok(env.new_long_array(&sizes)?)
    })
}

pub(crate) extern "system" fn compact_range<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    begin: ByteArray<'a>,
    end: ByteArray<'a>,
) {
    call(env, class, (), || {
        let begin = optional_bytes(env, begin)?;
        let end = optional_bytes(env, end)?;
        Ok(required(db)?.compact_range(begin.as_deref(), end.as_deref())?)
    });
}

pub(crate) extern "system" fn suspend_compactions<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) {
    call(env, class, (), || Ok(required(db)?.suspend_compactions()?));
}

pub(crate) extern "system" fn resume_compactions<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) {
    call(env, class, (), || {
        required(db)?.resume_compactions();
        Ok(())
    });
}

pub(crate) extern "system" fn flush<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) {
    call(env, class, (), || Ok(required(db)?.flush()?));
}

pub(crate) extern "system" fn checkpoint<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    path: ByteArray<'a>,
) -> jlong {
    call(env, class, 0, || {
        let path = PathBuf::from(text(env, path, "path")?);
        Ok(required(db)?.checkpoint(path)?.cast_signed())
    })
}

pub(crate) extern "system" fn catch_up<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) -> jlong {
    call(env, class, 0, || Ok(required(db)?.catch_up()?.cast_signed()))
}

/// Returns the report as text, and then each problem.
pub(crate) extern "system" fn verify<'a>(
    env: Env<'a>,
    class: Class<'a>,
    path: ByteArray<'a>,
    options: ByteArray<'a>,
    comparator: Object<'a>,
    comparator_name: ByteArray<'a>,
) -> ObjectArray<'a> {
    call(env, class, ObjectArray::NULL, || {
        let path = PathBuf::from(text(env, path, "path")?);
        let user = UserOptions { options, comparator, comparator_name, logger: Object::NULL };
        let report = terrace::verify(path, &user_options(env, user)?)?;
        let problems = report.problems.iter().map(ToString::to_string);
        let lines: Vec<String> = [report.to_string()].into_iter().chain(problems).collect();
        new_items(env, lines.into_iter().map(Some))
    })
}

/// Returns the report as text.
pub(crate) extern "system" fn repair<'a>(
    env: Env<'a>,
    class: Class<'a>,
    path: ByteArray<'a>,
    options: ByteArray<'a>,
    comparator: Object<'a>,
    comparator_name: ByteArray<'a>,
) -> ByteArray<'a> {
    call(env, class, ByteArray::NULL, || {
        let path = PathBuf::from(text(env, path, "path")?);
        let user = UserOptions { options, comparator, comparator_name, logger: Object::NULL };
        let report = terrace::repair(path, &user_options(env, user)?, &RepairOptions::default())?;
        Ok(env.new_byte_array(report.to_string().as_bytes())?)
    })
}

/// Removes a database, and its directory if it is empty afterwards.
pub(crate) extern "system" fn destroy<'a>(
    env: Env<'a>,
    class: Class<'a>,
    path: ByteArray<'a>,
    options: ByteArray<'a>,
) {
    call(env, class, (), || {
        let path = PathBuf::from(text(env, path, "path")?);
        let user = UserOptions {
            options,
            comparator: Object::NULL,
            comparator_name: ByteArray::NULL,
            logger: Object::NULL,
        };
        let options = user_options(env, user)?;
        terrace::destroy(&path, &options)?;
        // The directory may be missing or not empty.
        let _ = options.env.fs.remove_dir(&path);
        Ok(())
    });
}
