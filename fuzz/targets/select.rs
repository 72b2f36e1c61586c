//! Plans of `select`, and messages that they read. The parts of the input are separated by `\n===\n`: a
//! definition, the definition of the types that it names, paths (one per line), and a message.

use robocache_core::cdr::Reader;
use robocache_core::schema::{Definitions, FieldReader, Path, resolve};

struct Texts<'a>([&'a str; 2]);

impl Definitions for Texts<'_> {
    fn find(&self, name: &str) -> Result<String, String> {
        Ok(self.0[usize::from(name != "a/msg/A")].to_owned())
    }
}

const MARK: &[u8] = b"\n===\n";

/// The bytes up to the mark, as text; the rest.
fn text(input: &[u8]) -> Option<(&str, &[u8])> {
    let at = input.windows(MARK.len()).position(|part| part == MARK)?;
    Some((std::str::from_utf8(&input[..at]).ok()?, &input[at + MARK.len()..]))
}

fn select(input: &[u8]) -> Option<()> {
    let (definition, rest) = text(input)?;
    let (others, rest) = text(rest)?;
    let (paths, message) = text(rest)?;
    let root = resolve("a/msg/A", &Texts([definition, others])).ok()?;
    let paths: Vec<_> = paths.lines().take(16).map(Path::parse).collect::<Result<_, _>>().ok()?;
    let stamp = Path::parse("stamp").ok()?;
    for stamp in [None, Some(&stamp)] {
        let Ok(reader_of_fields) = FieldReader::new(&root, &paths, stamp) else { continue };
        let mut values = Vec::new();
        if let Ok(mut reader) = Reader::new(message) {
            let _ = reader_of_fields.read(&mut reader, &mut values);
            assert!(values.len() <= reader_of_fields.channels().len() + 2);
        }
    }
    Some(())
}

pub(crate) fn run(input: &[u8]) {
    select(input);
}
