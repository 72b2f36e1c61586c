use std::io::Write;

use mcap::{Compression, WriteOptions};
use tempfile::TempDir;

use super::super::super::tests::{write_again, write_messages};
use super::super::index::{Index, McapPart};
use super::*;

/// The bodies of the messages of a part.
fn messages(file: &fs::File, part: &McapPart) -> Result<Vec<Vec<u8>>, Broken> {
    let mut found = Vec::new();
    each(&read(file, part.offset, part.length, &FreeBuffers::default())?, |kind, body| {
        if kind == op::MESSAGE {
            found.push(message(body)?.1.to_vec());
        }
        Ok(())
    })?;
    Ok(found)
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u64).to_le_bytes(), body].concat()
}

/// A chunk whose header claims this size of its contents.
fn chunk(claimed: u64, compression: &str, data: &[u8]) -> Vec<u8> {
    let mut body = [0; 16].to_vec();
    body.extend(claimed.to_le_bytes());
    body.extend([[0; 4], (compression.len() as u32).to_le_bytes()].as_flattened());
    body.extend(compression.bytes());
    body.extend((data.len() as u64).to_le_bytes());
    body.extend(data);
    record(op::CHUNK, &body)
}

/// The records that are read of these bytes of a file.
fn read_bytes(bytes: &[u8]) -> Result<Bytes, String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let found = read(&file, 0, bytes.len() as u64, &FreeBuffers::default());
    found.map_err(|error| error.to_string())
}

#[test]
fn a_chunk_is_read_at_once_whatever_its_compression() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    let bodies = [10, 100_000, 20, 0].map(|size| vec![7; size]);
    // The last is cut and flipped below.
    for (compression, chunks) in [
        (Some(Compression::Zstd), true),
        (Some(Compression::Lz4), true),
        (None, false),
        (None, true),
    ] {
        let options = WriteOptions::new().compression(compression).use_chunks(chunks);
        write_messages(&path, options, bodies.clone());
        let file = fs::File::open(&path).unwrap();
        let index = Index::read(&file, &path, &mut |what| panic!("{what}")).unwrap();
        assert_eq!(index.parts.len(), if chunks { 1 } else { 4 });
        let found = index.parts.iter().flat_map(|part| messages(&file, part).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), bodies);
    }
    let bytes = fs::read(&path).unwrap();
    let file = fs::File::open(&path).unwrap();
    let part = &Index::read(&file, &path, &mut |what| panic!("{what}")).unwrap().parts[0];
    let read_again = |bytes: &[u8]| {
        write_again(&path, bytes);
        messages(&fs::File::open(&path).unwrap(), part)
    };
    for at in (0..part.length).step_by(97).chain(0..100) {
        let mut damaged = bytes.clone();
        damaged[(part.offset + at) as usize] ^= 1;
        match (at, read_again(&damaged)) {
            // A record of another kind.
            (0, found) => assert!(found.unwrap().is_empty()),
            // The times of a chunk have no checksum.
            (9..=24, found) => assert_eq!(found.unwrap(), bodies),
            (_, found) => assert!(found.is_err(), "{at}"),
        }
    }
    let error = read_again(&bytes[..bytes.len() / 2]).unwrap_err();
    assert!(error.to_string().contains("found the end"), "{error}");
}

#[test]
fn a_chunk_that_is_not_as_it_says_is_damage() {
    let contents = [record(op::MESSAGE, &[0; 40]), record(op::MESSAGE, &[1; 40])].concat();
    let size = contents.len() as u64;
    let zstd = zstd::encode_all(&contents[..], 1).unwrap();
    let lz4 = {
        let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
        encoder.write_all(&contents).unwrap();
        encoder.finish().0
    };
    for (compression, data) in [("", &contents), ("zstd", &zstd), ("lz4", &lz4)] {
        assert_eq!(read_bytes(&chunk(size, compression, data)).unwrap(), contents, "{compression}");
        for claimed in [0, size - 1, size + 1, 400 << 20, u64::MAX] {
            let found = read_bytes(&chunk(claimed, compression, data));
            assert!(found.is_err(), "{compression} {claimed}");
        }
        let half = &data[..data.len() / 2];
        assert!(read_bytes(&chunk(size, compression, half)).is_err(), "{compression}");
    }
    let error = read_bytes(&chunk(size, "xz", &contents)).unwrap_err();
    assert_eq!(error, "xz: expected lz4 or zstd, found another compression");
    // A later version may add fields behind the contents.
    let mut body = chunk(size, "", &contents)[HEADER..].to_vec();
    body.extend([9; 5]);
    assert_eq!(read_bytes(&record(op::CHUNK, &body)).unwrap(), contents);
}

#[test]
fn a_chunk_of_several_frames_is_read() {
    let contents = [record(op::MESSAGE, &[0; 40]), record(op::MESSAGE, &[1; 40])];
    let frames = contents.each_ref().map(|part| zstd::bulk::compress(part, 1).unwrap()).concat();
    let contents = contents.concat();
    assert_eq!(read_bytes(&chunk(contents.len() as u64, "zstd", &frames)).unwrap(), contents);
}

#[test]
fn a_record_that_goes_past_the_end_is_damage() {
    let whole = record(op::MESSAGE, &[0; 40]);
    let past = [&[op::MESSAGE][..], &(400_u64 << 20).to_le_bytes(), &[0; 40]].concat();
    let contents = [whole, past].concat();
    let mut given = 0;
    let told = each(&contents, |_, _| {
        given += 1;
        Ok(())
    });
    assert!(told.unwrap_err().to_string().contains("goes past the end"));
    assert_eq!(given, 1);
}

#[test]
fn a_large_message_is_a_part_of_its_chunk() {
    let memory = FreeBuffers::default();
    let records = Bytes::from(vec![1; 1_000_000]);
    for (len, is_slice) in [(100, false), (LARGE - 1, false), (249_999, false), (250_000, true)] {
        let (bytes, held) = share(&records, &records[100..][..len], &memory);
        assert_eq!(bytes, records[100..][..len]);
        assert_eq!(bytes.as_ptr() == records[100..].as_ptr(), is_slice, "{len}");
        assert_eq!(held, if is_slice { 1_000_000 } else { len });
    }
    // A message outside of chunks is nearly all of its record.
    let (bytes, held) = share(&records, &records[31..], &memory);
    assert_eq!((bytes.len(), held), (999_969, 1_000_000));
}
