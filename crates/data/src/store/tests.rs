//! Stores with shards of a few chunks: rows, repeats and episodes end anywhere in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::{Map, json};
use tempfile::TempDir;

use super::copy::Shards;
use super::zarr::path_of;
use super::*;
use crate::store::read::Array;
use robocache_core::codec::JpegRow;
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::random::Random;

/// Rows of 64 bytes or more are chunks of their own; 2 to 8 chunks fill a shard.
const SIZES: Sizes = Sizes { large_row: 64, chunk: 32, shard: 256 };

/// Small rows of 8 and of 3 bytes, and large ones of 128 and of 64. `is_apart`: each episode has shards of its own.
fn table(is_apart: bool) -> Table {
    let column = |name: &str, element, size: usize| {
        let rest = [("of_row".to_owned(), size)];
        let rest = if size == 1 { &[][..] } else { &rest[..] };
        Column { sizes: SIZES, ..Column::new(format!("t/{name}"), element, "row", rest) }
    };
    let columns = vec![
        column("number", Element::Int64, 1),
        column("image", Element::Uint16, 64),
        // Its shards have 4 rows, so that one ends between two episodes.
        Column {
            filler: 7,
            sizes: Sizes { chunk: 6, shard: 12, ..SIZES },
            ..column("few", Element::Uint8, 3)
        },
        column("grid", Element::Float32, 16),
    ];
    let begins = is_apart.then(|| "t/episode_begins".into());
    Table { columns, ends: "t/episode_ends".into(), begins, sorted_by: Some([0; 3]) }
}

/// The rows of an episode in the order of the store: per column, one after the other. A large one often repeats the one
/// before.
type Rows = Vec<Vec<Vec<u8>>>;

fn random_rows(random: &mut Random, count: usize) -> Rows {
    let mut rows: Rows = vec![Vec::new(); 4];
    rows[0] = (0..count).map(|number| (number as i64).to_le_bytes().to_vec()).collect();
    for (column, size) in [(1, 128), (2, 3), (3, 64)] {
        for row in 0..count {
            let again = size >= 64 && row > 0 && random.below(2) == 0;
            let new = match again {
                true => rows[column][row - 1].clone(),
                false => (0..size).map(|_| random.below(4) as u8).collect(),
            };
            rows[column].push(new);
        }
    }
    rows
}

/// Writes rows. Some of them come out of order, and some are put as repeats.
fn write_part(folder: &Path, table: Table, rows: &Rows, threads: usize, random: &mut Random) {
    let means = WriterLimits { threads, memory: 300 };
    let writer = PartWriter::create(folder, vec![table], means).unwrap();
    let mut numbers: Vec<usize> = (0..rows[0].len()).collect();
    for at in 1..numbers.len() {
        if random.below(6) == 0 {
            numbers.swap(at, at.saturating_sub(1 + random.below(5) as usize));
        }
    }
    for (at, row) in numbers.iter().enumerate() {
        let mut out = writer.row(0);
        let before = at.checked_sub(1).map(|before| numbers[before]);
        for (column, rows) in rows.iter().enumerate() {
            // The caller may know that a row is the one before.
            let known = before.is_some_and(|before| rows[before] == rows[*row]);
            if !known || random.below(2) == 0 || !out.repeat(column).unwrap() {
                out.put(column, &rows[*row]).unwrap();
            }
        }
        let is_early = numbers[at..].iter().any(|later| later < row);
        out.end_sorted([*row as i64; 3], is_early && random.below(2) == 0);
    }
    writer.complete(json!({"rows": rows[0].len()})).unwrap();
}

fn assembled(path: &Path, table: &Table, sources: &[Source], threads: usize) -> Built {
    let from_store = sources.iter().any(|source| matches!(source, Source::Store { .. }));
    let joined = Joined {
        sources,
        tables: if from_store { vec![table.clone()] } else { Vec::new() },
        about: Map::new(),
        threads,
        stop: &AtomicBool::new(false),
        told: &|_, _| (),
    };
    assemble(path, joined).unwrap().unwrap()
}

/// Reads the rows of a column as the specification of Zarr says: shards of chunks, each found by the index at the end.
/// A missing chunk is zero.
fn read(store: &Path, column: &Column, count: usize) -> Vec<Vec<u8>> {
    let size = column.row_bytes();
    let mut bytes = Vec::new();
    let mut number = 0;
    while bytes.len() < count * size {
        let shard = fs::read(path_of(store, column, number)).unwrap();
        let (chunks, checksum) = shard.split_at(shard.len() - 4);
        let index = chunks.split_at(chunks.len() - 16 * column.shard_chunks()).1;
        assert_eq!(checksum, crc32c::crc32c(index).to_le_bytes());
        let numbers = index.as_chunks::<8>().0.iter().map(|n| u64::from_le_bytes(*n) as usize);
        let numbers: Vec<usize> = numbers.collect();
        for place in numbers.chunks(2) {
            if place[0] == usize::MAX {
                bytes.resize(bytes.len() + size * column.chunk_rows(), 0);
                continue;
            }
            let (chunk, checksum) = shard[place[0]..place[0] + place[1]].split_at(place[1] - 4);
            assert_eq!(checksum, crc32c::crc32c(chunk).to_le_bytes());
            bytes.extend(zstd::decode_all(chunk).unwrap());
        }
        number += 1;
    }
    assert!(!path_of(store, column, number).exists(), "{}: one shard too many", column.path);
    bytes.chunks(size.max(1)).take(count).map(<[u8]>::to_vec).collect()
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(
                files(&path)
                    .into_iter()
                    .map(|(file, bytes)| (Path::new(path.file_name().unwrap()).join(file), bytes)),
            ),
            false => {
                found.insert(path.file_name().unwrap().into(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn rows_episodes_and_repeats_may_end_anywhere_in_a_shard() {
    let mut random = Random::new(7);
    for case in 0..12 {
        let table = table(case % 2 == 1);
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.zarr");
        let counts: Vec<usize> = (0..4).map(|_| random.below(12) as usize).collect();
        let episodes: Vec<Rows> =
            counts.iter().map(|count| random_rows(&mut random, *count)).collect();
        let part = |number: usize| folder.path().join(format!("part{number}"));
        for (number, rows) in episodes.iter().enumerate() {
            write_part(&part(number), table.clone(), rows, 1 + case % 3, &mut random);
        }
        let parts = |chosen: &[usize]| -> Vec<Source> {
            chosen.iter().map(|number| Source::StorePart(part(*number))).collect()
        };
        let spans = |chosen: &[usize]| table.spans(chosen.iter().map(|at| counts[*at] as u64));
        let check = |chosen: &[usize]| {
            let spans = spans(chosen);
            let count = spans.last().unwrap().end as usize;
            for (column, of) in table.columns.iter().enumerate() {
                let mut expected = vec![vec![of.filler; of.row_bytes()]; count];
                for (number, span) in chosen.iter().zip(&spans) {
                    let span = span.start as usize..span.end as usize;
                    expected[span].clone_from_slice(&episodes[*number][column]);
                }
                assert_eq!(read(&path, of, count), expected, "{}", of.path);
            }
        };
        assembled(&path, &table, &parts(&[0, 1, 2]), 1 + case % 2).complete().unwrap();
        check(&[0, 1, 2]);
        // Episodes of that store, in another order, and a new one among them.
        let before = spans(&[0, 1, 2]);
        let old = |number: usize| Source::Store {
            begin: vec![before[number].start],
            rows: vec![counts[number] as u64],
            about: json!({"rows": counts[number]}),
        };
        assembled(&path, &table, &[old(2), Source::StorePart(part(3)), old(0), old(1)], 2)
            .complete()
            .unwrap();
        check(&[2, 3, 0, 1]);
        let again = files(&path);
        assembled(&path, &table, &parts(&[2, 3, 0, 1]), 1).complete().unwrap();
        assert_eq!(again, files(&path), "case {case}");
    }
}

#[test]
fn large_rows_are_written_once_if_episodes_are_apart() {
    let mut random = Random::new(3);
    let folder = TempDir::new().unwrap();
    let table = table(true);
    let path = folder.path().join("x.zarr");
    let parts = [folder.path().join("a"), folder.path().join("b")];
    for part in &parts {
        let rows = random_rows(&mut random, 5);
        write_part(part, table.clone(), &rows, 2, &mut random);
    }
    let sources = parts.clone().map(Source::StorePart);
    assembled(&path, &table, &sources, 2).complete().unwrap();
    let spans = table.spans([5, 5]);
    for (number, column) in table.columns.iter().enumerate().filter(|(_, of)| of.has_large_rows()) {
        for (part, span) in parts.iter().zip(&spans) {
            let first = span.start / column.shard_rows();
            for shard in 0..5u64.div_ceil(column.shard_rows()) {
                let in_part = part.join(format!("0.{number}.{shard}"));
                let in_store = path_of(&path, column, first + shard);
                let file = |path: &Path| fs::metadata(path).unwrap().ino();
                assert_eq!(file(&in_part), file(&in_store), "{}", column.path);
            }
        }
    }
}

/// Images of 4x6 pixels in every order of channels.
fn images() -> Table {
    let orders = [
        ("planes", Color::Rgb, ImageLayout::Chw, [3, 6, 4]),
        ("blue", Color::Bgr, ImageLayout::Hwc, [6, 4, 3]),
        ("gray", Color::Mono, ImageLayout::Chw, [1, 6, 4]),
    ];
    let column = |(name, color, layout, shape): (&str, _, _, [usize; 3])| {
        let rest: Vec<_> = ["a", "b", "c"].map(str::to_owned).into_iter().zip(shape).collect();
        let jpeg = JpegRow { quality: 90, width: 4, height: 6, color, layout };
        Column {
            sizes: Sizes { large_row: 1 << 20, ..SIZES },
            codec: Codec::Jpeg(jpeg),
            ..Column::new(format!("t/{name}"), Element::Uint8, "row", &rest)
        }
    };
    let columns = orders.into_iter().map(column).collect();
    Table { columns, ends: "t/episode_ends".into(), begins: None, sorted_by: None }
}

#[test]
fn images_with_loss_are_read_as_they_were_decoded() {
    let mut random = Random::new(21);
    let folder = TempDir::new().unwrap();
    let part = folder.path().join("part");
    let store = folder.path().join("x.zarr");
    let limits = WriterLimits { threads: 2, memory: 300 };
    let writer = PartWriter::create(&part, vec![images()], limits).unwrap();
    let mut rows: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
    for number in 0..11 {
        let mut out = writer.row(0);
        for (column, rows) in rows.iter_mut().enumerate() {
            let size = images().columns[column].row_bytes();
            let mut new = || (0..size).map(|_| random.below(256) as u8).collect();
            let row = if number == 4 { rows[3].clone() } else { new() };
            out.put(column, &row).unwrap();
            rows.push(row);
        }
        out.end();
    }
    let losses = writer.complete(json!({})).unwrap();
    assembled(&store, &images(), &[Source::StorePart(part)], 1).complete().unwrap();
    for (column, of) in images().columns.iter().enumerate() {
        let Codec::Jpeg(jpeg) = of.codec else { panic!("{of:?}") };
        let array = Array::of(&store.join(&of.path)).unwrap();
        assert_eq!(array.codec.clone(), Codec::Jpeg(jpeg));
        let size = of.row_bytes();
        let mut found = vec![0; 11 * size];
        array.read_ranges(std::slice::from_ref(&(0..11)), &mut found, 2).unwrap();
        let mut pixels = Vec::new();
        let mut file = Vec::new();
        let mut expected = vec![0; size];
        let mut loss = Loss::default();
        for (number, row) in rows[column].iter().enumerate() {
            jpeg.encode(row, &mut pixels, &mut file).unwrap();
            jpeg.decode(&file, &mut pixels, &mut expected).unwrap();
            assert_eq!(found[number * size..][..size], expected, "{} {number}", of.path);
            if number == 4 {
                continue;
            }
            let error = row.iter().zip(&expected).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
            loss.add(Loss {
                images: 1,
                values: size as u64,
                bytes: file.len() as u64 + 4,
                squared_error: error.sum(),
            });
        }
        assert_eq!(losses[&(0, column)], loss);
    }
}

#[test]
fn codecs_that_no_row_has_are_refused() {
    let folder = TempDir::new().unwrap();
    let part = folder.path().join("part");
    let store = folder.path().join("x.zarr");
    let limits = WriterLimits { threads: 1, memory: 300 };
    let writer = PartWriter::create(&part, vec![images()], limits).unwrap();
    writer.complete(json!({})).unwrap();
    assembled(&store, &images(), &[Source::StorePart(part)], 1).complete().unwrap();
    let path = store.join("t/planes/zarr.json");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("imagecodecs_jpeg", "imagecodecs_png", "found transpose, imagecodecs_png, crc32c"),
        ("\"uint8\"", "\"uint16\"", "expected a uint8 image of 1 or 3 channels per chunk"),
        ("\"level\": 90", "\"level\": \"best\"", "the configuration of imagecodecs_jpeg"),
        ("\"name\": \"transpose\"", "\"name\": \"squeeze\"", "found squeeze, imagecodecs_jpeg"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = Array::of(&store.join("t/planes")).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_shard_gets_another_name_even_if_there_is_one() {
    let mut random = Random::new(5);
    let folder = TempDir::new().unwrap();
    let table = table(true);
    let part = folder.path().join("part");
    write_part(&part, table.clone(), &random_rows(&mut random, 2), 1, &mut random);
    let path = |shard: u64| part.join(format!("0.1.{shard}"));
    let from = Shards { column: &table.columns[1], path: &path, is_checked: true };
    let to = folder.path().join("shard");
    let before = fs::read(path(0)).unwrap();
    // A network file system may report an error although it has made the name.
    fs::hard_link(path(0), &to).unwrap();
    assert!(from.link(&(0..2), &to).unwrap());
    assert_eq!((fs::read(path(0)).unwrap(), fs::read(&to).unwrap()), (before.clone(), before));
}

#[test]
fn a_damaged_shard_of_a_part_never_gets_into_a_store() {
    let mut random = Random::new(6);
    for is_apart in [true, false] {
        let table = table(is_apart);
        for damage in ["a chunk", "the index", "truncated", "gone"] {
            let folder = TempDir::new().unwrap();
            let part = folder.path().join("part");
            write_part(&part, table.clone(), &random_rows(&mut random, 5), 1, &mut random);
            let shard = part.join("0.1.1");
            let mut bytes = fs::read(&shard).unwrap();
            let len = bytes.len();
            match damage {
                "a chunk" => bytes[3] ^= 1,
                "the index" => bytes[len - 12] ^= 1,
                _ => bytes.truncate(len / 2),
            }
            match damage {
                "gone" => fs::remove_file(&shard).unwrap(),
                _ => fs::write(&shard, bytes).unwrap(),
            }
            let joined = Joined {
                sources: &[Source::StorePart(part.clone())],
                tables: Vec::new(),
                about: Map::new(),
                threads: 1,
                stop: &AtomicBool::new(false),
                told: &|_, _| (),
            };
            let error = assemble(&folder.path().join("x.zarr"), joined).err().expect(damage);
            assert!(error.path.starts_with(&part), "{damage}: {error}");
            assert!(!folder.path().join("x.zarr").exists());
        }
    }
}
