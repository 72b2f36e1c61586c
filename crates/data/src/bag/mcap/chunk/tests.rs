use std::io::Write;

use mcap::{Compression, WriteOptions};
use tempfile::TempDir;

use super::super::super::tests::{write_again, write_messages};
use super::super::{Index, records};
use super::*;

/// Header and body of each message of a part; `None` if it cannot be read.
type Found = Option<Vec<(MessageHeader, Vec<u8>)>>;

/// Messages that each of both ways of reading finds.
fn both(file: &fs::File, part: &McapPart) -> [Found; 2] {
    let memory = FreeBuffers::default();
    let whole = whole(file, part, &memory).unwrap().map(|whole| {
        let mut found = Vec::new();
        each_message(&whole, |header, data| found.push((header, data.to_vec()))).unwrap();
        found
    });
    let mut found = Vec::new();
    let told = records(file, part.offset, part.length, |record| {
        if let Record::Message { header, data } = record {
            found.push((header, data.into_owned()));
        }
    });
    [whole, told.is_ok().then_some(found)]
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

fn chunk_of_zstd(claimed: u64, contents: &[u8]) -> Vec<u8> {
    chunk(claimed, "zstd", &zstd::encode_all(contents, 1).unwrap())
}

/// A file with these bytes, and its length.
fn file_of(bytes: &[u8]) -> (fs::File, u64) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    (file, bytes.len() as u64)
}

#[test]
fn a_chunk_is_read_at_once_whatever_its_compression() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    // The last is cut and flipped below.
    for (compression, chunks) in [
        (Some(Compression::Zstd), true),
        (Some(Compression::Lz4), true),
        (None, false),
        (None, true),
    ] {
        let options = WriteOptions::new().compression(compression).use_chunks(chunks);
        write_messages(&path, options, [10, 100_000, 20, 0].map(|size| vec![7; size]));
        let file = fs::File::open(&path).unwrap();
        let index = Index::read(&file, &path, &mut |what| panic!("{what}")).unwrap();
        assert_eq!(index.parts.len(), if chunks { 1 } else { 4 });
        for part in &index.parts {
            let [at_once, one_by_one] = both(&file, part);
            assert_eq!(at_once, one_by_one);
            assert_eq!(at_once.unwrap().len(), if chunks { 4 } else { 1 });
        }
    }
    let bytes = fs::read(&path).unwrap();
    let index = |bytes: &[u8]| {
        write_again(&path, bytes);
        let file = fs::File::open(&path).unwrap();
        let index = Index::read(&file, &path, &mut |_| ()).unwrap();
        (file, index)
    };
    let (_, whole) = index(&bytes);
    let part = &whole.parts[0];
    for at in (0..part.length).step_by(97).chain(0..100) {
        let mut damaged = bytes.clone();
        damaged[(part.offset + at) as usize] ^= 1;
        let (file, _) = index(&damaged);
        let [at_once, one_by_one] = both(&file, part);
        assert!(at_once.is_none() || at_once == one_by_one, "{at}");
    }
    let (file, _) = index(&bytes[..bytes.len() / 2]);
    assert_eq!(both(&file, part)[0], None);
}

#[test]
fn a_record_that_goes_past_the_end_of_its_chunk_is_damage() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    let options = WriteOptions::new().compression(None).calculate_chunk_crcs(false);
    write_messages(&path, options, [10, 20].map(|size| vec![7; size]));
    let file = fs::File::open(&path).unwrap();
    let part = &Index::read(&file, &path, &mut |what| panic!("{what}")).unwrap().parts[0];
    let bytes = fs::read(&path).unwrap();
    let size_at = part.offset as usize + HEADER + CHUNK_HEADER - 8;
    let size = u64_at(&bytes, size_at);
    for (less, is_whole) in [(0, true), (1, false), (8, false), (30, false), (60, false)] {
        let mut damaged = bytes.clone();
        damaged[size_at..][..8].copy_from_slice(&(size - less).to_le_bytes());
        fs::write(&path, &damaged).unwrap();
        let file = fs::File::open(&path).unwrap();
        let [at_once, one_by_one] = both(&file, part);
        assert_eq!(one_by_one.is_some(), is_whole, "{less}");
        assert_eq!(at_once.is_some(), less == 0, "{less}");
    }
}

#[test]
fn a_record_that_claims_more_than_its_chunk_has_is_damage() {
    let contents = [&[op::MESSAGE][..], &(400_u64 << 20).to_le_bytes(), &[0; 40]].concat();
    let (file, length) = file_of(&chunk_of_zstd(contents.len() as u64, &contents));
    // Nothing of 400 MB is reserved.
    assert_eq!(bounds(&file, 0, length).unwrap().longest as u64, length.max(contents.len() as u64));
    let told = records(&file, 0, length, |_| ()).unwrap_err().to_string();
    assert!(told.contains("419430400"), "{told}");
}

#[test]
fn a_chunk_that_claims_more_than_lz4_can_make_of_it_reserves_nothing_of_that() {
    let part = chunk(400 << 20, "lz4", &[0; 100]);
    let (file, length) = file_of(&part);
    assert_eq!(bounds(&file, 0, length).unwrap().longest, 255 * part.len());
}

#[test]
fn a_chunk_that_claims_much_more_than_zstd_makes_of_it_reserves_nothing_of_that() {
    // zstd compresses these zeros more than LZ4 can.
    let messages = [2_000_000, 1_000_000].map(|size| record(op::MESSAGE, &vec![0; size]));
    let contents = messages.concat();
    let size = contents.len() as u64;
    for (claimed, is_whole) in [(size, true), (400 << 20, false)] {
        let (file, length) = file_of(&chunk_of_zstd(claimed, &contents));
        assert!(length * LZ4_TIMES < size);
        assert_eq!(bounds(&file, 0, length).unwrap().longest as u64, size, "{claimed}");
        let mut given = 0;
        let told = records(&file, 0, length, |_| given += 1);
        assert_eq!((given, told.is_ok()), (2, is_whole), "{claimed}");
    }
    // If the contents are damaged, those before the damage count.
    let (file, length) = file_of(&chunk_of_zstd(400 << 20, &contents));
    let longest = bounds(&file, 0, length - 20).unwrap().longest as u64;
    assert!((size / 2..size).contains(&longest), "{longest}");
}

#[test]
fn a_chunk_in_an_index_is_not_read() {
    // Its contents go past its end. If the crate's reader read it, it would count below zero.
    let mut body = [0; 16].to_vec();
    body.extend([&50_u64.to_le_bytes()[..], &[0; 8], &9_u64.to_le_bytes()].concat());
    body.extend([&[op::MESSAGE][..], &40_u64.to_le_bytes(), &[0; 40]].concat());
    let part = [record(op::METADATA, &[0; 60]), record(op::CHUNK, &body)].concat();
    let (file, length) = file_of(&part);
    let mut given = 0;
    records(&file, 0, length, |_| given += 1).unwrap();
    assert_eq!(given, 0);
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
