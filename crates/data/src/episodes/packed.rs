//! Rows that stay compressed in the files of a store. A window unpacks its own.

use std::cell::RefCell;
use std::fs;
use std::ops::Range;

use super::finite;
use super::mapped::Mapped;
use super::memory::Bytes;
use crate::store::read::Array;
use crate::store::{Codec, chunk};
use robocache_ops::dtype::DType;
use robocache_ops::windows::PackedRows;

/// Rows of an array whose rows are chunks. The files are mapped: if a replay replaces the store, these rows stay as they
/// are, because it writes other files. Nobody may change or shorten the files themselves.
pub struct Packed {
    files: Vec<Mapped>,
    /// Of each row: the number of its file, the place and the length of its chunk. The length of a missing chunk, whose
    /// elements are zero, is 0.
    places: Vec<(u32, u64, u32)>,
    row_bytes: usize,
    dtype: DType,
    codec: Codec,
}

/// Checks that `files` more files may be mapped. A quarter of what Linux permits is left for everything else.
fn check_count(files: usize) -> Result<(), String> {
    let limit = "/proc/sys/vm/max_map_count";
    let maps = "/proc/self/maps";
    let limit = fs::read_to_string(limit).ok().and_then(|text| text.trim().parse::<usize>().ok());
    // Without these files, there is another limit or none.
    let (Some(limit), Ok(maps)) = (limit, fs::read_to_string(maps)) else { return Ok(()) };
    let left = (limit / 4 * 3).saturating_sub(maps.lines().count());
    match files <= left {
        true => Ok(()),
        false => Err(format!(
            "expected at most {left} files of rows to map, found {files}: load the rows without `compressed`, fewer \
             episodes, or raise vm.max_map_count"
        )),
    }
}

impl Packed {
    /// The rows of ranges, one range after the other. Only indices are read.
    ///
    /// # Errors
    /// A file of the array cannot be read.
    pub fn new(array: &Array, dtype: DType, ranges: &[Range<u64>]) -> Result<Self, String> {
        let (paths, places) = array.row_places(ranges)?;
        check_count(paths.len()).map_err(|wrong| array.wrong(&wrong))?;
        let open =
            |path| Mapped::open(path).map_err(|error| format!("{}: {error}", path.display()));
        let files = paths.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
        let row_bytes = array.row_bytes;
        let codec = array.codec;
        Ok(Packed { files, places, row_bytes, dtype, codec })
    }

    /// Hands all rows to `take`, in their order, one at a time.
    ///
    /// # Errors
    /// That of `take`, or of a row that cannot be read.
    pub(super) fn for_each<E: From<String>>(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = vec![0; self.row_bytes];
        for at in 0..self.places.len() {
            self.read(at, &mut row).map_err(|error| format!("row {at}: {error}"))?;
            take(&row)?;
        }
        Ok(())
    }
}

thread_local! {
    /// Made once per thread and batch: zstd has 160 KB, which a thread of a batch unpacks in a tenth of a millisecond.
    static UNPACK: RefCell<Option<chunk::Unpack>> = const { RefCell::new(None) };
}

impl PackedRows for Packed {
    fn byte_len(&self) -> usize {
        self.places.len().saturating_mul(self.row_bytes)
    }

    fn read(&self, row: usize, out: &mut [u8]) -> Result<(), String> {
        let (file, at, len) = self.places[row];
        if len == 0 {
            out.fill(0);
            return Ok(());
        }
        let bytes = self.files[file as usize].bytes();
        let end = usize::try_from(at).ok().and_then(|at| at.checked_add(len as usize));
        let chunk = end.and_then(|end| bytes.get(end - len as usize..end));
        let chunk = chunk.ok_or("the place of a chunk is not in the file")?;
        UNPACK.with_borrow_mut(|unpack| {
            let unpack = match unpack {
                Some(unpack) => unpack,
                None => unpack.insert(chunk::Unpack::new().map_err(|error| error.to_string())?),
            };
            unpack.chunk(self.codec, chunk, out).map_err(|error| error.to_string())
        })?;
        match finite::are_finite(self.dtype, out) {
            true => Ok(()),
            false => Err("a number that is not finite".to_owned()),
        }
    }
}
