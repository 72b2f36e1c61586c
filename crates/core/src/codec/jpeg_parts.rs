//! The parts of a JPEG file.
//!
//! libjpeg takes a file that lacks a part for whole: a camera's image without colour, or a progressive one
//! at half its precision. So the parts are counted here, from the headers alone (ITU-T T.81, annex B).

/// Most scans of a file. Progressive files have about ten. Each costs as much as the whole image,
/// and a file of a megabyte could have a hundred thousand.
const MOST_SCANS: usize = 128;
/// Coefficients of a block.
const BLOCK: usize = 64;
/// No scan has had this coefficient.
const NEVER: u8 = u8::MAX;

/// A component of the image, and the bits that its coefficients still lack.
struct Component {
    id: u8,
    lacking: [u8; BLOCK],
}

/// Checks that the scans of a file give all components with all bits.
///
/// # Errors
/// What was expected and found.
pub(super) fn check(file: &[u8]) -> Result<(), String> {
    let mut components: Vec<Component> = Vec::new();
    let mut progressive = false;
    let mut scans = 0;
    let mut at = 2;
    while let Some((marker, body)) = next(file, &mut at) {
        match (marker, body) {
            // Baseline, extended, progressive.
            (0xC0..=0xC2, [_, _, _, _, _, _, ids @ ..]) => {
                progressive = marker == 0xC2;
                let new = |id: &[u8; 3]| Component { id: id[0], lacking: [NEVER; BLOCK] };
                components = ids.as_chunks::<3>().0.iter().map(new).collect();
            }
            (0xDA, [count, rest @ ..]) if rest.len() >= 2 * usize::from(*count) + 3 => {
                scans += 1;
                let (ids, end) = rest.split_at(2 * usize::from(*count));
                let of_all = [0, BLOCK as u8 - 1, 0];
                let [from, to, bits] =
                    if progressive { [end[0], end[1], end[2] & 15] } else { of_all };
                for id in ids.as_chunks::<2>().0 {
                    let part = usize::from(from)..=usize::from(to).min(BLOCK - 1);
                    let known = components.iter_mut().find(|component| component.id == id[0]);
                    if let Some(lacking) = known.and_then(|known| known.lacking.get_mut(part)) {
                        lacking.fill(bits);
                    }
                }
            }
            (0xD9, _) => break,
            _ => {}
        }
        if scans > MOST_SCANS {
            return Err(format!("expected at most {MOST_SCANS} scans, found more"));
        }
    }
    match components.iter().all(|component| component.lacking == [0; BLOCK]) {
        true => Ok(()),
        false => Err("expected all parts of the image, found a file that lacks some".to_owned()),
    }
}

/// The width and height that a file declares \[px\].
pub(super) fn size(file: &[u8]) -> Option<[usize; 2]> {
    let mut at = 2;
    loop {
        match next(file, &mut at)? {
            // A start of frame; the others from 0xC0 on are tables.
            (0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF, body) => {
                let side =
                    |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?).into());
                return Some([side(3)?, side(1)?]);
            }
            (0xD9, _) => return None,
            _ => {}
        }
    }
}

/// Returns the next marker and what it declares as its content.
fn next<'a>(file: &'a [u8], at: &mut usize) -> Option<(u8, &'a [u8])> {
    loop {
        *at += memchr::memchr(0xFF, file.get(*at..)?)?;
        let marker = *file.get(*at + 1)?;
        match marker {
            0xFF => *at += 1,
            // In compressed data: the byte 0xFF itself, and restarts.
            0x00 | 0x01 | 0xD0..=0xD8 => *at += 2,
            0xD9 => return Some((marker, &[])),
            _ => {
                let length = file.get(*at + 2..*at + 4)?;
                let length = usize::from(u16::from_be_bytes([length[0], length[1]])).max(2);
                let body = file.get(*at + 4..*at + 2 + length)?;
                *at += 2 + length;
                return Some((marker, body));
            }
        }
    }
}
