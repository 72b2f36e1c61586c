//! Bits and Huffman codes of JPEG.

use robocache_ops::image::jpeg::{BLOCK, VALUE_BITS};

/// Bits of a look-up: codes and values that are longer together take a second step.
const LOOK_UP: u32 = 11;
/// So many look-ups have enough bits after a refill.
pub(super) const PER_REFILL: u32 = 56 / LOOK_UP;
/// The values of a look-up have no more bits than these, so that each fits in an entry.
const SHORT: u32 = VALUE_BITS - 1;
/// The greatest coefficient of an image of 8 bits has this many. A difference of two has one more.
const MOST_BITS: u32 = 10;
/// The run of the symbol that ends a block: it ends a loop over places.
pub(super) const END: usize = BLOCK;

/// What a look-up found: one symbol with its value, or two. From the lowest bit on:
///
/// | bits | |
/// |---|---|
/// | 0 to 5 | how many bits all codes and values have; 0 if those of the first symbol are longer than a look-up |
/// | 6 to 14 | the magnitude of the first value |
/// | 15 to 24 | the first value |
/// | 25 to 31 | how many places it is behind the last coefficient |
/// | 32 | whether there are two values |
/// | 33 | whether the last symbol ends the block |
/// | 34 to 37 | how many bits the code and value of the first of two symbols have |
/// | 38 to 63 | as 6 to 31: the second value, or no value at the place of the first |
///
/// If the block ends, or if the first symbol is longer than a look-up, the place of the second value is [`BLOCK`]. Of a
/// longer symbol, 15 to 24 are the bits of its value, 25 to 31 its run, and 34 to 37 the bits of its code, if that is not
/// longer than a look-up; else 0. Of a first coefficient, the place is 0.
#[derive(Clone, Copy)]
pub(super) struct Found(u64);

const TAKEN: u64 = 0x3F;
const MAGNITUDE: u32 = 6;
const VALUE: u32 = 15;
const PLACE: u32 = VALUE + VALUE_BITS;
/// From a field of the first value to that of the second.
const SECOND: u32 = 32;
const IS_PAIR: u32 = 32;
const ENDS: u32 = 33;
const FIRST_TAKEN: u32 = 34;
/// The place of a second value that is none.
const BEYOND: u64 = (BLOCK as u64) << PLACE << SECOND;
// A place behind the last one of a block still has 7 bits, so that nothing is carried into the next field. A run is at
// most 15.
const _: () = assert!(BLOCK - 1 + BLOCK < 128 && BLOCK >= 2 * 16);

impl Found {
    /// A value and its place, as the first.
    fn value(place: usize, value: i32) -> u64 {
        let bits = u64::from(value as u32 & ((1 << VALUE_BITS) - 1));
        (place as u64) << PLACE | bits << VALUE | u64::from(value.unsigned_abs()) << MAGNITUDE
    }

    /// A symbol whose value is longer than a look-up: the length of its code, its run, and the bits of its value.
    fn long(length: u32, run: usize, size: u32) -> Self {
        Found(BEYOND | Self::value(run, size as i32) | u64::from(length) << FIRST_TAKEN)
    }

    /// The code and value have more bits than a look-up.
    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.0 & TAKEN == 0
    }

    /// The first value.
    #[inline(always)]
    pub(super) fn first(self) -> i32 {
        ((self.0 as u32) << (32 - PLACE)) as i32 >> (32 - VALUE_BITS)
    }

    /// The values in a block whose last coefficient has this place.
    #[inline(always)]
    pub(super) fn behind(self, last: Place) -> Values {
        Values(self.0 + (last.0 | last.0 >> SECOND))
    }
}

/// The place of a coefficient, as that of a second value.
#[derive(Clone, Copy)]
pub(super) struct Place(u64);

impl Place {
    /// In the order of the file, below [`BLOCK`].
    pub(super) const fn new(place: usize) -> Self {
        Place((place as u64) << PLACE << SECOND)
    }

    /// In the order of the file.
    pub(super) const fn index(self) -> usize {
        (self.0 >> PLACE >> SECOND) as usize
    }
}

/// What a look-up found, with the places of its values in the block.
#[derive(Clone, Copy)]
pub(super) struct Values(u64);

/// A value that a look-up found.
pub(super) struct Coefficient {
    /// In the order of the file.
    pub place: usize,
    pub magnitude: u32,
    /// Of [`Coefficients::entries`](robocache_ops::image::jpeg::Coefficients::entries).
    pub entry: u16,
}

impl Values {
    /// All values are within the block, and it goes on.
    #[inline(always)]
    pub(super) fn are_within(self) -> bool {
        (self.0 as i64) >= 0
    }

    /// The last symbol that was found ends this block. False if the block was full before it: then it is of the next
    /// block.
    #[inline(always)]
    pub(super) fn end(self) -> bool {
        // If the first value, or the last coefficient before, has the last place, one place more sets the highest bit.
        let has_room = (self.0 as u32).wrapping_add(1 << PLACE) as i32 >= 0;
        self.0 & 1 << ENDS != 0 && has_room
    }

    /// The first value is the last coefficient of the block.
    pub(super) fn first_is_last(self) -> bool {
        self.0 >> PLACE & 0x7F == BLOCK as u64 - 1
    }

    /// 1 if there are two symbols, else 0.
    #[inline(always)]
    pub(super) fn pairs(self) -> usize {
        (self.0 >> IS_PAIR & 1) as usize
    }

    #[inline(always)]
    pub(super) fn first(self) -> Coefficient {
        Coefficient {
            place: (self.0 >> PLACE) as usize % BLOCK,
            magnitude: (self.0 >> MAGNITUDE) as u32 & ((1 << SHORT) - 1),
            entry: (self.0 >> VALUE) as u16,
        }
    }

    /// If there is none, its magnitude is 0.
    #[inline(always)]
    pub(super) fn second(self) -> Coefficient {
        Values(self.0 >> SECOND).first()
    }

    /// The place of the last value.
    #[inline(always)]
    pub(super) fn last(self) -> Place {
        Place(self.0 & Place::new(BLOCK - 1).0)
    }
}

/// A code of a file, with the values that follow its symbols.
pub(super) struct Table {
    /// By the next bits.
    found: Box<[Found; 1 << LOOK_UP]>,
    /// By length: beyond the greatest code, as the upper bits of 16.
    limits: [u32; 17],
    /// By length: what is added to a code for the place of its symbol.
    offsets: [i32; 17],
    counts: [u8; 16],
    symbols: Vec<u8>,
    /// Whether it is of first coefficients, whose symbols have no run.
    is_first: bool,
}

/// A symbol whose code and value are not longer than a look-up.
#[derive(Clone, Copy)]
struct Short {
    /// 0 if it is longer.
    taken: u32,
    run: usize,
    value: i32,
}

impl Table {
    /// The code of these `symbols`. `counts` says how many have each length from 1 to 16. `None` if it is no code.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8], is_first: bool) -> Option<Self> {
        if is_first && symbols.iter().any(|symbol| u32::from(*symbol) > MOST_BITS + 1) {
            return None;
        }
        let mut table = Table {
            found: Box::new([Found(BEYOND); 1 << LOOK_UP]),
            limits: [0; 17],
            offsets: [0; 17],
            counts: *counts,
            symbols: symbols.to_vec(),
            is_first,
        };
        let mut shorts = vec![Short { taken: 0, run: 0, value: 0 }; 1 << LOOK_UP];
        let (mut code, mut place) = (0u32, 0);
        for (length, count) in (1u32..).zip(counts) {
            table.offsets[length as usize] = place as i32 - code as i32;
            // No code is ones alone.
            if code + u32::from(*count) >= 1 << length {
                return None;
            }
            for _ in 0..*count {
                table.fill(code, length, *symbols.get(place)?, &mut shorts);
                (code, place) = (code + 1, place + 1);
            }
            table.limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        table.pair(&shorts);
        Some(table)
    }

    /// Whether it is the code of these symbols.
    pub(super) fn is_of(&self, counts: &[u8; 16], symbols: &[u8]) -> bool {
        self.counts == *counts && self.symbols == symbols
    }

    /// Notes all bits that begin with a code.
    fn fill(&mut self, code: u32, length: u32, symbol: u8, shorts: &mut [Short]) {
        if length > LOOK_UP {
            return;
        }
        let (run, size) = parts(symbol, self.is_first);
        let taken = length + size;
        let first = code << (LOOK_UP - length);
        for bits in first..first + (1 << (LOOK_UP - length)) {
            if taken <= LOOK_UP && size <= SHORT {
                let value = extended(bits >> (LOOK_UP - taken) & ((1 << size) - 1), size);
                shorts[bits as usize] = Short { taken, run, value };
            } else if size <= MOST_BITS + u32::from(self.is_first) {
                self.found[bits as usize] = Found::long(length, run, size);
            }
        }
    }

    /// Notes what short symbols there are for all bits.
    fn pair(&mut self, shorts: &[Short]) {
        for (bits, found) in self.found.iter_mut().enumerate() {
            let Short { taken, run, value } = shorts[bits];
            let next = shorts[bits << taken & ((1 << LOOK_UP) - 1)];
            if taken == 0 {
                continue;
            }
            let one = |step| Found::value(step, value) | u64::from(taken);
            *found = Found(if self.is_first {
                one(0)
            } else if run == END {
                BEYOND | 1 << ENDS | u64::from(taken)
            } else if next.taken == 0 || taken + next.taken > LOOK_UP {
                one(run + 1) | Place::new(run + 1).0
            } else {
                let second = match next.run {
                    END => BEYOND | 1 << ENDS,
                    more => Found::value(run + 1 + more + 1, next.value) << SECOND,
                };
                let pair = 1 << IS_PAIR | u64::from(taken) << FIRST_TAKEN;
                (one(run + 1) | second | pair) + u64::from(next.taken)
            });
        }
    }

    /// Looks up the next bits.
    #[inline(always)]
    pub(super) fn find(&self, bits: &Bits<'_>) -> Found {
        self.found[(bits.buffer >> (64 - LOOK_UP)) as usize]
    }

    /// Reads a symbol whose code and value are longer than a look-up: how many zeros come before it ([`END`] if no
    /// other value follows), and the value. `None` if it is no symbol, or if no image of 8 bits has such a value.
    #[inline(always)]
    pub(super) fn long<'a>(
        &self,
        found: Found,
        mut bits: Bits<'a>,
    ) -> Option<(Bits<'a>, (usize, i32))> {
        bits.refill()?;
        let (run, size) = match (found.0 >> FIRST_TAKEN) as u32 & 0xF {
            0 => {
                let (length, run, size) = self.longest((bits.buffer >> 48) as u32)?;
                bits.skip(length);
                (run, size)
            }
            length => {
                bits.skip(length);
                ((found.0 >> PLACE) as usize & 0xF, (found.0 >> VALUE) as u32 & 0xF)
            }
        };
        let value = extended((bits.buffer >> 1 >> (63 - size)) as u32, size);
        bits.skip(size);
        bits.refill()?;
        Some((bits, (run, value)))
    }

    /// The length, run and size of a code that is longer than a look-up, by the next 16 bits.
    #[cold]
    fn longest(&self, next: u32) -> Option<(u32, usize, u32)> {
        if next < self.limits[LOOK_UP as usize] {
            return None;
        }
        let length = (LOOK_UP + 1..17).find(|length| next < self.limits[*length as usize])?;
        let place = (next >> (16 - length)) as i32 + self.offsets[length as usize];
        let (run, size) = parts(*self.symbols.get(place as usize)?, self.is_first);
        (size <= MOST_BITS + u32::from(self.is_first)).then_some((length, run, size))
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
pub(super) struct Bits<'a> {
    /// From the first byte on that is not wholly in `buffer`.
    rest: &'a [u8],
    /// The next bits, from the highest on.
    buffer: u64,
    /// How many of them count, in the lowest 6 bits.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Of these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Bits { rest: bytes, buffer: 0, count: 0 }
    }

    /// Fills the buffer. `None` at the end of the bytes.
    #[inline(always)]
    pub(super) fn refill(&mut self) -> Option<()> {
        let next = self.rest.first_chunk::<8>()?;
        self.buffer |= u64::from_be_bytes(*next) >> (self.count & 63);
        self.rest = &self.rest[(!self.count >> 3 & 7) as usize..];
        // At least 56, and as many as before modulo 8.
        self.count |= 0x38;
        Some(())
    }

    /// Goes on behind all symbols that a look-up found.
    #[inline(always)]
    pub(super) fn take(&mut self, found: Found) {
        self.buffer <<= found.0 & TAKEN;
        // Only the lowest bits of the count count, so that no other field needs to be removed.
        self.count = self.count.wrapping_sub(found.0 as u32);
    }

    /// Goes on behind the first of two symbols.
    pub(super) fn take_first(&mut self, found: Found) {
        self.skip((found.0 >> FIRST_TAKEN) as u32 & 0xF);
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count = self.count.wrapping_sub(bits);
    }

    /// How many bytes there are from which no bit was read.
    pub(super) fn left(&self) -> usize {
        self.rest.len() + (self.count as usize & 63) / 8
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
