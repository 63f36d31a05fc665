//! Calls that Linux and Apple's systems have in different forms.
//!
//! ```text
//!                       linux                         apple
//!   sync_file           fdatasync                     F_FULLFSYNC, or fsync where it is refused
//!   allocate            fallocate                     F_PREALLOCATE
//!   prefetch            posix_fadvise                 F_RDADVISE
//!   next_data           SEEK_DATA                     none: holes are read as zeros
//!   physical_memory     sysinfo                       sysctl hw.memsize
//!   random_seed         getrandom                     getentropy
//!   use_huge_pages      MADV_HUGEPAGE                 none: the system decides
//!   abstract_address    name that begins with byte 0  none
//!   set_unsent_timeout  TCP_USER_TIMEOUT              TCP_RXT_CONNDROPTIME
//!   end_with_parent     PR_SET_PDEATHSIG              none
//!   keep_heap_small     mallopt with glibc            none
//! ```
//!
//! A new system of the POSIX family is a file of this folder with these functions.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(target_vendor = "apple")]
pub(crate) use apple::*;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::*;
