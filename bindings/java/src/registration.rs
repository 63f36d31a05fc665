//! Table of all native functions of the class `org.terracedb.Native`.

use std::ffi::c_void;

use crate::raw::NativeFunction;
use crate::{cursor, database, maintenance, transaction};

/// Builds the table from rows `function: "signature"`. A row has the signature that the class
/// `Native` declares. The virtual machine refuses to register a row without such a declaration.
macro_rules! functions {
    ($($name:ident = $function:path: $signature:literal;)+) => {
        &[$(NativeFunction {
            name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("an identifier has no zero byte"),
            },
            signature: $signature,
            function: $function as *const c_void,
        }),+]
    };
}

/// All functions. In a signature, `[B` is an array of bytes, and `J` a handle or a number.
pub(crate) static FUNCTIONS: &[NativeFunction] = functions! {
    open = database::open: c"([BI[BLorg/iq80/leveldb/DBComparator;[BLorg/terracedb/LogReceiver;J)J";
    shutdown = database::shutdown: c"(J)V";
    freeDatabase = database::free: c"(J)V";
    get = database::get: c"(J[BIJI)[B";
    getMany = database::get_many: c"(J[[BJI)[[B";
    put = database::put: c"(J[BI[BIZ)V";
    delete = database::delete: c"(J[BIZ)V";
    write = database::write: c"(J[BIZ)V";
    deleteRange = database::delete_range: c"(J[B[B)V";
    snapshot = database::snapshot: c"(J)J";
    freeSnapshot = database::free_snapshot: c"(J)V";
    cursor = cursor::open: c"(JJI[B[B[B)J";
    fill = cursor::fill: c"(JI[BZI[B)I";
    freeCursor = cursor::free: c"(J)V";
    property = database::property: c"(J[B)[B";
    stats = maintenance::stats: c"(J)[B";
    approximateSizes = maintenance::approximate_sizes: c"(J[[B)[J";
    compactRange = maintenance::compact_range: c"(J[B[B)V";
    suspendCompactions = maintenance::suspend_compactions: c"(J)V";
    resumeCompactions = maintenance::resume_compactions: c"(J)V";
    flush = maintenance::flush: c"(J)V";
    checkpoint = maintenance::checkpoint: c"(J[B)J";
    catchUp = maintenance::catch_up: c"(J)J";
    verify = maintenance::verify: c"([B[BLorg/iq80/leveldb/DBComparator;[B)[[B";
    repair = maintenance::repair: c"([B[BLorg/iq80/leveldb/DBComparator;[B)[B";
    destroy = maintenance::destroy: c"([B[B)V";
    begin = transaction::begin: c"(JZZJZ)J";
    transactionGet = transaction::get: c"(J[BI)[B";
    transactionPut = transaction::put: c"(J[B[B)V";
    transactionDelete = transaction::delete: c"(J[B)V";
    transactionCursor = transaction::cursor: c"(JI[B[B[B)J";
    commit = transaction::commit: c"(J)V";
    freeTransaction = transaction::free: c"(J)V";
};
