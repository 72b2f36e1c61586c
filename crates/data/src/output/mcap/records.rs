//! Records of MCAP as bytes: <https://mcap.dev/spec>.

use std::collections::BTreeMap;

/// Adds a record of this kind, whose content `put` adds.
pub(super) fn record(out: &mut Vec<u8>, kind: u8, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    sized(out, u64::to_le_bytes, put);
}

/// Adds a text.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    sized(out, |len| (len as u32).to_le_bytes(), |out| out.extend_from_slice(text.as_bytes()));
}

/// Adds a map from names to texts.
pub(super) fn texts(out: &mut Vec<u8>, texts: &BTreeMap<String, String>) {
    list(out, |out| {
        texts.iter().flat_map(|(key, value)| [key, value]).for_each(|of| text(out, of));
    });
}

/// Adds entries whose size in bytes comes before them.
pub(super) fn list(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    sized(out, |len| (len as u32).to_le_bytes(), put);
}

/// Adds numbers of 64 bits.
pub(super) fn numbers<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Adds what `put` adds, with its length in bytes before it.
fn sized<const N: usize>(
    out: &mut Vec<u8>,
    length: impl FnOnce(u64) -> [u8; N],
    put: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    out.extend_from_slice(&[0; N]);
    put(out);
    let len = out.len() - at - N;
    out[at..at + N].copy_from_slice(&length(len as u64));
}
