//! Geometry of an XFS file system: it tells whether files can share blocks (reflinks).
//!
//! The structure and the number of the call are those of `xfs_fs.h`, in the oldest version, which
//! every kernel knows.
#![allow(unsafe_code)] // A call of `ioctl` has no safe wrapper.

use std::fs::File;
use std::mem::size_of;

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

/// `struct xfs_fsop_geom_v1`.
#[repr(C)]
struct XfsGeometry {
    /// Sizes and counts of blocks, groups and inodes.
    sizes: [u32; 8],
    /// Numbers of blocks and extents, and the start of the journal.
    blocks: [u64; 4],
    uuid: [u8; 16],
    stripes: [u32; 2],
    version: u32,
    flags: u32,
    sector_sizes: [u32; 3],
    padding: u32,
}

const _: () = assert!(size_of::<XfsGeometry>() == 112);

/// `XFS_IOC_FSGEOMETRY_V1`.
const GET_GEOMETRY: Opcode = opcode::read::<XfsGeometry>(b'X', 100);

/// `XFS_FSOP_GEOM_FLAGS_REFLINK`.
const HAS_REFLINKS: u32 = 1 << 20;

/// Returns true if files on the XFS file system of `file` can share blocks, or if the system does
/// not tell.
pub(super) fn may_share_blocks(file: &File) -> bool {
    // SAFETY: the number is that of a call that fills an `xfs_fsop_geom_v1`, whose layout and size
    // `XfsGeometry` has. Any bytes are a valid value of it.
    let getter = unsafe { Getter::<GET_GEOMETRY, XfsGeometry>::new() };
    // SAFETY: the call writes only the value of `getter`, and reads no memory of the process. A
    // file system other than XFS returns an error.
    let geometry = unsafe { ioctl(file, getter) };
    geometry.map_or(true, |geometry| geometry.flags & HAS_REFLINKS != 0)
}
