//! Iterator interface of the engine, and a macro that forwards it.

pub(crate) use terrace_format::InternalIterator;

/// Defines iterator methods that call the same methods of an inner iterator.
///
/// `inner in [pattern | ..]` destructures `self`; every pattern binds `inner`. Each method has its
/// signature from [`InternalIterator`] and the attributes of its line. The calls are static.
macro_rules! delegate_iterator {
    ($inner:ident in $patterns:tt; $($(#[$attr:meta])* $vis:vis fn $method:ident;)+) => {
        $(delegate_iterator!(@$method [$(#[$attr])* $vis] $inner $patterns);)+
    };
    (@valid $($rest:tt)+) => { delegate_iterator!(@read valid bool, $($rest)+); };
    (@key $($rest:tt)+) => { delegate_iterator!(@read key &[u8], $($rest)+); };
    (@value $($rest:tt)+) => { delegate_iterator!(@read value &[u8], $($rest)+); };
    (@entry $($rest:tt)+) => { delegate_iterator!(@read entry Option<(&[u8], &[u8])>, $($rest)+); };
    (@status $($rest:tt)+) => { delegate_iterator!(@read status crate::error::Result<()>, $($rest)+); };
    (@seek $($rest:tt)+) => { delegate_iterator!(@move seek [, target: &[u8]] (target), $($rest)+); };
    (@$method:ident [$(#[$attr:meta])* $vis:vis] $($rest:tt)+) => {
        delegate_iterator!(@move $method [] (), [$(#[$attr])* $vis] $($rest)+);
    };
    (@read $method:ident $result:ty,
        [$(#[$attr:meta])* $vis:vis] $inner:ident [$($pattern:pat_param)|+]) => {
        $(#[$attr])*
        $vis fn $method(&self) -> $result {
            match self { $($pattern => $inner.$method(),)+ }
        }
    };
    (@move $method:ident [$($parameter:tt)*] $arguments:tt,
        [$(#[$attr:meta])* $vis:vis] $inner:ident [$($pattern:pat_param)|+]) => {
        $(#[$attr])*
        $vis fn $method(&mut self $($parameter)*) {
            match self { $($pattern => $inner.$method $arguments,)+ }
        }
    };
}

pub(crate) use delegate_iterator;
