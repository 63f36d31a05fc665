//! Comparators and loggers that are objects of Java.

use std::cmp::Ordering;
use std::fmt;

use terrace::{Comparator, Logger};

use crate::call::Failure;
use crate::raw::{Env, Global, MethodId, Object};

/// Comparator of the user. Its methods run in every thread of the engine.
pub(crate) struct JavaComparator {
    object: Global,
    name: String,
    compare: MethodId,
}

impl JavaComparator {
    pub(crate) fn new(env: Env<'_>, object: Object<'_>, name: String) -> Result<JavaComparator, Failure> {
        let compare = env.method(object, c"compare", c"(Ljava/lang/Object;Ljava/lang/Object;)I");
        let compare = compare.ok_or(Failure::Thrown)?;
        let object = env.global(object).ok_or(Failure::Thrown)?;
        Ok(JavaComparator { object, name, compare })
    }
}

impl Comparator for JavaComparator {
    fn name(&self) -> &str {
        &self.name
    }

    /// A comparator that throws ends the process, because a partly known order of keys would
    /// destroy data.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = self.object.virtual_machine().with_env(|env| {
            env.call_int(&self.object, self.compare, a, b).unwrap_or_else(|| {
                env.print_exception();
                env.end_process(c"terrace: the comparator has thrown an exception")
            })
        });
        // A thread that cannot be attached runs after the end of the virtual machine.
        order.unwrap_or_else(|| std::process::abort()).cmp(&0)
    }
}

/// Logger of the user.
pub(crate) struct JavaLogger {
    object: Global,
    log: MethodId,
}

impl JavaLogger {
    pub(crate) fn new(env: Env<'_>, object: Object<'_>) -> Result<JavaLogger, Failure> {
        let log = env.method(object, c"log", c"([B)V").ok_or(Failure::Thrown)?;
        let object = env.global(object).ok_or(Failure::Thrown)?;
        Ok(JavaLogger { object, log })
    }
}

impl Logger for JavaLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        self.object.virtual_machine().with_env(|env| env.call_void(&self.object, self.log, line.as_bytes()));
    }
}
