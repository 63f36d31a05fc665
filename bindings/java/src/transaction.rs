//! Transactions.

use std::time::Duration;

use jni_sys::{jint, jlong};
use terrace::{Db, Isolation, ReadOptions, Transaction, TransactionOptions};
use terrace_sync::Mutex;

use crate::call::{Failure, Kind, bytes, call, free_handle};
use crate::cursor::{EitherIterator, new_cursor, with_bounds};
use crate::database::required;
use crate::raw::{ByteArray, Class, Env, Handle, into_handle};

/// Transaction, until it ends.
pub(crate) struct OpenTransaction(Mutex<Option<Transaction>>);

impl OpenTransaction {
    fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T, Failure>) -> Result<T, Failure> {
        work(self.0.lock().as_mut().ok_or_else(ended)?)
    }
}

fn ended() -> Failure {
    Failure::Error { kind: Kind::Unsupported, message: "not supported: the transaction has ended".into() }
}

pub(crate) extern "system" fn begin<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    snapshot_isolation: bool,
    locking: bool,
    lock_timeout_millis: jlong,
    sync: bool,
) -> jlong {
    call(env, class, 0, || {
        let isolation = if snapshot_isolation { Isolation::Snapshot } else { Isolation::Serializable };
        let options = TransactionOptions::default()
            .isolation(isolation)
            .locking(locking)
            .lock_timeout(Duration::from_millis(lock_timeout_millis.unsigned_abs()))
            .sync(sync);
        Ok(into_handle(OpenTransaction(Mutex::new(Some(required(db)?.begin(&options))))))
    })
}

/// `mode` is 0 for a get, and 1 for a get whose key other writers must not change.
pub(crate) extern "system" fn get<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
    key: ByteArray<'a>,
    mode: jint,
) -> ByteArray<'a> {
    call(env, class, ByteArray::NULL, || {
        let key = bytes(env, key, "key")?;
        let value = required(transaction)?.with(|transaction| {
            Ok(if mode == 0 { transaction.get(&key)? } else { transaction.get_for_update(&key)? })
        })?;
        match value {
            Some(value) => Ok(env.new_byte_array(&value)?),
            None => Ok(ByteArray::NULL),
        }
    })
}

pub(crate) extern "system" fn put<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
    key: ByteArray<'a>,
    value: ByteArray<'a>,
) {
    call(env, class, (), || {
        let key = bytes(env, key, "key")?;
        let value = bytes(env, value, "value")?;
        required(transaction)?.with(|transaction| Ok(transaction.put(&key, &value)?))
    });
}

pub(crate) extern "system" fn delete<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
    key: ByteArray<'a>,
) {
    call(env, class, (), || {
        let key = bytes(env, key, "key")?;
        required(transaction)?.with(|transaction| Ok(transaction.delete(&key)?))
    });
}

pub(crate) extern "system" fn cursor<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
    flags: jint,
    lower: ByteArray<'a>,
    upper: ByteArray<'a>,
    prefix: ByteArray<'a>,
) -> jlong {
    call(env, class, 0, || {
        let options = ReadOptions::default().verify_checksums(flags & 1 != 0);
        let options = with_bounds(env, options, [lower, upper, prefix])?;
        let iterator = required(transaction)?.with(|open| Ok(open.raw_iter_with(&options)?))?;
        Ok(new_cursor(EitherIterator::Transaction(iterator)))
    })
}

pub(crate) extern "system" fn commit<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
) {
    call(env, class, (), || {
        let transaction = required(transaction)?.0.lock().take().ok_or_else(ended)?;
        transaction.commit()?;
        Ok(())
    });
}

/// Frees a transaction. One that has not ended is rolled back.
pub(crate) extern "system" fn free<'a>(
    env: Env<'a>,
    class: Class<'a>,
    transaction: Handle<'a, OpenTransaction>,
) {
    free_handle(env, class, transaction);
}
