//! Blocks of all kinds, whole and damaged, against a reader that goes bit by bit.

use proptest::prelude::*;

use super::*;

/// A code: how many symbols have each length, and the symbols.
type Code = ([u8; 16], Vec<u8>);

const FIRST: [u8; 16] = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
/// For 162 symbols: the usual lengths, two lengths, and all of them.
const OTHERS: [[u8; 16]; 3] = [
    [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
    [0, 0, 0, 0, 0, 16, 0, 146, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 123],
];
const ZEROS: u8 = 0xF0;

fn others() -> impl Strategy<Value = Code> {
    let values = (0..16).flat_map(|run| (1..=10).map(move |size| run << 4 | size));
    let symbols: Vec<u8> = [0, ZEROS].into_iter().chain(values).collect();
    (prop::sample::select(&OTHERS[..]), Just(symbols).prop_shuffle())
}

/// Writes blocks, bit by bit.
struct Writer<'a> {
    first: &'a Code,
    others: &'a Code,
    bits: Vec<u8>,
    random: u64,
}

impl Writer<'_> {
    /// Below `end`.
    fn random(&mut self, end: u32) -> u32 {
        // The generator of Knuth's MMIX.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as u32 % end
    }

    fn put(&mut self, bits: u32, count: u32) {
        self.bits.extend((0..count).rev().map(|bit| (bits >> bit & 1) as u8));
    }

    fn symbol(&mut self, (counts, symbols): &Code, symbol: u8) {
        let at = symbols.iter().position(|other| *other == symbol).unwrap();
        let (mut code, mut place) = (0, 0);
        for (length, count) in (1..).zip(counts.iter().map(|count| usize::from(*count))) {
            if at < place + count {
                return self.put((code + at - place) as u32, length);
            }
            (code, place) = ((code + count) << 1, place + count);
        }
    }

    /// The bits of a value that needs this many.
    fn value(&mut self, value: i32, size: u32) {
        self.put((if value < 0 { value - 1 } else { value }) as u32, size);
    }

    /// A block of any coefficients. One of three has a value at the last place, or zeros up to it.
    fn block(&mut self, last: &mut i32) -> [i32; BLOCK] {
        let mut block = [0; BLOCK];
        block[0] = if self.random(4) == 0 { self.random(2047) as i32 - 1023 } else { *last };
        let size = 32 - (block[0] - *last).unsigned_abs().leading_zeros();
        self.symbol(self.first, size as u8);
        self.value(block[0] - *last, size);
        *last = block[0];
        let end = if self.random(3) == 0 { BLOCK - 1 } else { self.random(63) as usize };
        let mut place = 0;
        while place < end {
            if end - place > 15 && self.random(16) == 0 {
                self.symbol(self.others, ZEROS);
                place += 16;
                continue;
            }
            let most = if self.random(4) == 0 { 16 } else { 3 };
            let run = (self.random(most) as usize).min(end - place - 1);
            let most = if self.random(8) == 0 { 10 } else { 3 };
            let size = 1 + self.random(most);
            let magnitude = 1 << (size - 1) | self.random(1 << (size - 1)) as i32;
            place += run + 1;
            block[place] = if self.random(2) == 0 { magnitude } else { -magnitude };
            self.symbol(self.others, (run as u8) << 4 | size as u8);
            self.value(block[place], size);
        }
        if place < BLOCK - 1 {
            self.symbol(self.others, 0);
        }
        block
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[u8]| (0..8).fold(0, |byte, at| byte << 1 | bits.get(at).unwrap_or(&0));
        self.bits.chunks(8).map(byte).collect()
    }
}

/// Reads blocks bit by bit, as the standard says it.
struct Slow<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl Slow<'_> {
    fn bits(&mut self, count: u32) -> u32 {
        (0..count).fold(0, |bits, _| {
            let byte = self.bytes.get(self.bit / 8).copied().unwrap_or(0);
            let bit = byte >> (7 - self.bit % 8) & 1;
            self.bit += 1;
            bits << 1 | u32::from(bit)
        })
    }

    fn symbol(&mut self, (counts, symbols): &Code) -> Option<u8> {
        let (mut code, mut first, mut place) = (0, 0, 0);
        for count in counts.iter().map(|count| u32::from(*count)) {
            (code, first) = (code << 1 | self.bits(1), first << 1);
            if code < first + count {
                return symbols.get((place + code - first) as usize).copied();
            }
            (first, place) = (first + count, place + count);
        }
        None
    }

    fn value(&mut self, size: u32) -> i32 {
        let bits = self.bits(size) as i32;
        if size > 0 && bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits }
    }

    /// The coefficients of a block, in the order of the file.
    fn block(&mut self, first: &Code, others: &Code, last: &mut i32) -> Option<[i32; BLOCK]> {
        let mut block = [0; BLOCK];
        let size = self.symbol(first)?;
        *last += self.value(size.into());
        block[0] = *last;
        let mut place = 1;
        while place < BLOCK {
            let symbol = self.symbol(others)?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 && run < 15 {
                break;
            }
            place += run;
            if place >= BLOCK || size > 10 {
                return None;
            }
            block[place] = self.value(size);
            place += 1;
        }
        Some(block)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn blocks_are_those_that_are_read_bit_by_bit(
        others in others(), random in any::<u64>(), damages in 0usize..3,
    ) {
        const BLOCKS: usize = 40;
        let first = (FIRST, (0..12).collect());
        let mut writer = Writer { first: &first, others: &others, bits: Vec::new(), random };
        let mut last = 0;
        let written = [(); BLOCKS].map(|()| writer.block(&mut last));
        for _ in 0..damages {
            let at = writer.random(writer.bits.len() as u32) as usize;
            writer.bits[at] ^= 1;
        }
        let bytes = writer.bytes();
        let quantiser = std::array::from_fn(|at| 1 + (at % 20) as u8);
        let tables = [(&first, true), (&others, false)]
            .map(|((counts, symbols), is_first)| Table::new(counts, symbols, is_first).unwrap());
        let padded = [&bytes[..], &[0; PADDING]].concat();
        let (mut bits, mut last) = (Bits::new(&padded), 0);
        let (mut slow, mut slow_last) = (Slow { bytes: &bytes, bit: 0 }, 0);
        for (number, written) in written.into_iter().enumerate() {
            let mut out = [0; MOST_ENTRIES];
            let found = block(&mut bits, (&tables[0], &tables[1]), &quantiser, &mut last, &mut out);
            let read = slow.block(&first, &others, &mut slow_last);
            if damages == 0 {
                prop_assert_eq!(read, Some(written));
            }
            if slow.bit > 8 * bytes.len() {
                // What is behind the end, the file's reader refuses.
                prop_assert!(damages > 0 && (found.is_none() || bits.left() < PADDING));
                break;
            }
            let expected = read.and_then(|block| {
                i16::try_from(block[0]).ok()?;
                let scaled: [i32; BLOCK] =
                    std::array::from_fn(|at| block[at] * i32::from(quantiser[at]));
                let others: u32 = scaled[1..].iter().map(|value| value.unsigned_abs()).sum();
                let mut natural = [0; BLOCK];
                (0..BLOCK).for_each(|at| natural[usize::from(ZIGZAG[at])] = scaled[at]);
                Some((natural, scaled[0].unsigned_abs(), others))
            });
            let found = found.map(|(used, Magnitudes { first, others })| {
                (dequantised(&out[..used], &quantiser), first, others)
            });
            prop_assert_eq!(found, expected, "block {}", number);
            if expected.is_none() {
                break;
            }
            prop_assert_eq!(padded.len() - bits.left(), slow.bit.div_ceil(8));
        }
    }
}
