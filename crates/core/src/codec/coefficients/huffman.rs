//! Bits and Huffman codes of JPEG.

/// Bits of a look-up: codes and values that are longer together take a second step.
const LOOK_UP: u32 = 11;
/// So many look-ups have enough bits after a refill.
pub const SHORT_PER_REFILL: usize = (56 / LOOK_UP) as usize;
/// More bits than these the values of a look-up do not have, so that each fits in an entry.
const SHORT: u32 = 9;
/// The greatest coefficient of an image of 8 bits has this many. A difference of two has one more.
const MOST_BITS: u32 = 10;
/// The run of the symbol that ends a block: it ends a loop over places.
pub const END: usize = 64;

/// A code of a file, with the values that follow its symbols.
pub struct Table {
    /// By the next bits: the length of code and value in the lowest byte, the run in the second, the value in the
    /// upper two; 0 if they are longer.
    short: Box<[u32; 1 << LOOK_UP]>,
    /// By length: beyond the greatest code, as the upper bits of 16.
    limits: [u32; 17],
    /// By length: what is added to a code for the place of its symbol.
    offsets: [i32; 17],
    symbols: Vec<u8>,
    /// Whether it is of first coefficients, whose symbols have no run.
    is_first: bool,
}

impl Table {
    /// The code of these `symbols`. `counts` says how many have each length from 1 to 16. `None` if it is no code.
    pub fn new(counts: &[u8; 16], symbols: &[u8], is_first: bool) -> Option<Self> {
        if is_first && symbols.iter().any(|symbol| u32::from(*symbol) > MOST_BITS + 1) {
            return None;
        }
        let mut table = Table {
            short: Box::new([0; 1 << LOOK_UP]),
            limits: [0; 17],
            offsets: [0; 17],
            symbols: symbols.to_vec(),
            is_first,
        };
        let (mut code, mut place) = (0u32, 0);
        for (length, count) in (1u32..).zip(counts) {
            table.offsets[length as usize] = place as i32 - code as i32;
            // No code is ones alone.
            if code + u32::from(*count) >= 1 << length {
                return None;
            }
            for _ in 0..*count {
                table.fill_short(code, length, *symbols.get(place)?);
                (code, place) = (code + 1, place + 1);
            }
            table.limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Some(table)
    }

    /// Notes all bits that begin with a code and its value.
    fn fill_short(&mut self, code: u32, length: u32, symbol: u8) {
        let (run, size) = parts(symbol, self.is_first);
        let taken = length + size;
        if taken > LOOK_UP || size > SHORT {
            return;
        }
        let first = code << (LOOK_UP - length);
        for bits in first..first + (1 << (LOOK_UP - length)) {
            let value = extended(bits >> (LOOK_UP - taken) & ((1 << size) - 1), size);
            self.short[bits as usize] = taken | (run as u32) << 8 | (value as u32) << 16;
        }
    }

    /// Reads a symbol and its value, if both are short: how many zeros come before it ([`END`] if no other value
    /// follows), and the value.
    #[inline(always)]
    pub fn short(&self, bits: &mut Bits<'_>) -> Option<(usize, i32)> {
        let found = self.short[(bits.buffer >> (64 - LOOK_UP)) as usize];
        bits.skip(found & 0xFF);
        (found != 0).then_some(((found >> 8 & 0xFF) as usize, found as i32 >> 16))
    }

    /// The same for those that are not, with the bits that follow. `None` if it is no symbol, or if no image of 8 bits has
    /// such a value.
    ///
    /// Bits are given and returned by value: if a call took their address, they would never be in registers.
    #[cold]
    #[inline(never)]
    pub fn long<'a>(&self, mut bits: Bits<'a>) -> Option<(Bits<'a>, (usize, i32))> {
        bits.refill()?;
        let next = (bits.buffer >> 48) as u32;
        let length = (1..17).find(|length| next < self.limits[*length])?;
        let place = (next >> (16 - length)) as i32 + self.offsets[length];
        let (run, size) = parts(*self.symbols.get(place as usize)?, self.is_first);
        bits.skip(length as u32);
        if size > MOST_BITS + u32::from(self.is_first) {
            return None;
        }
        let value = if size == 0 { 0 } else { extended((bits.buffer >> (64 - size)) as u32, size) };
        bits.skip(size);
        bits.refill()?;
        Some((bits, (run, value)))
    }
}

/// The run and the bits of the value that a symbol stands for.
fn parts(symbol: u8, is_first: bool) -> (usize, u32) {
    match (usize::from(symbol >> 4), u32::from(symbol & 15)) {
        // Sixteen zeros: fifteen before a zero.
        (run, 0) if !is_first && run != 15 => (END, 0),
        parts => parts,
    }
}

/// The value that some bits stand for. Those that begin with 0 are negative.
const fn extended(bits: u32, size: u32) -> i32 {
    if size > 0 && bits >> (size - 1) == 0 { bits as i32 - (1 << size) + 1 } else { bits as i32 }
}

/// Reads bits, the highest of a byte first. After a refill there are at least 56, behind the end of the bytes zeros.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// The next byte that is not wholly in `buffer`.
    at: usize,
    /// The next bits, from the highest on, and how many of them count.
    buffer: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    /// From byte `at` on.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Bits { bytes, at, buffer: 0, count: 0 }
    }

    /// Fills the buffer. `None` at the end of the bytes.
    #[inline(always)]
    pub fn refill(&mut self) -> Option<()> {
        let next = self.bytes.get(self.at..)?.first_chunk::<8>()?;
        self.buffer |= u64::from_be_bytes(*next) >> self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        // At least 56, and as many as before modulo 8.
        self.count |= 0x38;
        Some(())
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count -= bits;
    }

    /// The place behind the last byte that a bit was read from.
    pub fn end(&self) -> usize {
        (8 * self.at - self.count as usize).div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_codes_than_a_length_has_are_no_code() {
        for (length, most) in [(1, 1), (3, 7), (11, 255)] {
            let table = |count: u8| {
                let mut counts = [0; 16];
                counts[length - 1] = count;
                Table::new(&counts, &[1; 256], false)
            };
            assert!(table(most).is_some(), "{most} of {length} bits");
            assert!(length > 8 || table(most + 1).is_none(), "{most} + 1 of {length} bits");
        }
        let mut counts = [0; 16];
        counts[..2].copy_from_slice(&[1, 3]);
        assert!(Table::new(&counts, &[1; 16], false).is_none());
    }
}
