//! Stores with shards of a few chunks: rows, repeats and episodes end anywhere in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::{Map, json};
use tempfile::TempDir;

use super::zarr::path_of;
use super::*;
use crate::store::read::Array;
use robocache_core::codec::JpegRow;
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::random::Random;

/// Rows of 64 bytes or more are chunks of their own; 2 to 8 chunks fill a shard.
const SIZES: Sizes = Sizes { large_row: 64, chunk: 32, shard: 256 };

/// Small rows of 8 and of 3 bytes, and large ones of 128 and of 64.
fn table() -> Table {
    let column = |name: &str, element, size: usize| {
        let rest = [("of_row".to_owned(), size)];
        let rest = if size == 1 { &[][..] } else { &rest[..] };
        Column { sizes: SIZES, ..Column::new(format!("t/{name}"), element, "row", rest) }
    };
    let columns = vec![
        column("number", Element::Int64, 1),
        column("image", Element::Uint16, 64),
        column("few", Element::Uint8, 3),
        column("grid", Element::Float32, 16),
    ];
    Table { columns, ends: "t/episode_ends".into(), sorted_by: None }
}

/// The rows of an episode: per column, one after the other. A large one often repeats the one before.
type Rows = Vec<Vec<Vec<u8>>>;

fn random_rows(random: &mut Random, count: usize) -> Rows {
    let mut rows: Rows = vec![Vec::new(); 4];
    for (column, size) in [(0, 8), (1, 128), (2, 3), (3, 64)] {
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

fn write_part(folder: &Path, rows: &Rows, threads: usize) {
    let means = WriterLimits { threads, memory: 300 };
    let writer = PartWriter::create(folder, vec![table()], means).unwrap();
    for row in 0..rows[0].len() {
        let mut out = writer.row(0);
        for (column, rows) in rows.iter().enumerate() {
            out.put(column, &rows[row]).unwrap();
        }
        out.end();
    }
    writer.complete(json!({"rows": rows[0].len()})).unwrap();
}

fn assembled(path: &Path, sources: &[Source], threads: usize) -> Built {
    let from_store = sources.iter().any(|source| matches!(source, Source::Store { .. }));
    let joined = Joined {
        sources,
        tables: if from_store { vec![table()] } else { Vec::new() },
        about: Map::new(),
        threads,
        stop: &AtomicBool::new(false),
        told: &|_, _| (),
    };
    assemble(path, joined).unwrap().unwrap()
}

/// Reads the rows of a column as the specification of Zarr says: shards of chunks, each found by the index at the end.
fn read(store: &Path, column: &Column, count: usize) -> Vec<Vec<u8>> {
    let size = column.row_bytes();
    let (mut bytes, mut number) = (Vec::new(), 0);
    while bytes.len() < count * size {
        let shard = fs::read(path_of(store, column, number)).unwrap();
        let (chunks, checksum) = shard.split_at(shard.len() - 4);
        let index = chunks.split_at(chunks.len() - 16 * column.shard_chunks()).1;
        assert_eq!(checksum, crc32c::crc32c(index).to_le_bytes());
        let numbers = index.as_chunks::<8>().0.iter().map(|n| u64::from_le_bytes(*n) as usize);
        let numbers: Vec<usize> = numbers.collect();
        for place in numbers.chunks(2).filter(|place| place[0] != usize::MAX) {
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
    for case in 0..16 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.zarr");
        let counts: Vec<usize> = (0..4).map(|_| random.below(12) as usize).collect();
        let episodes: Vec<Rows> =
            counts.iter().map(|count| random_rows(&mut random, *count)).collect();
        let part = |number: usize| folder.path().join(format!("part{number}"));
        for (number, rows) in episodes.iter().enumerate() {
            write_part(&part(number), rows, 1 + case % 3);
        }
        let parts = |chosen: &[usize]| -> Vec<Source> {
            chosen.iter().map(|number| Source::StorePart(part(*number))).collect()
        };
        let check = |chosen: &[usize]| {
            let rows: usize = chosen.iter().map(|number| counts[*number]).sum();
            for (column, of) in table().columns.iter().enumerate() {
                let expected = chosen.iter().flat_map(|number| episodes[*number][column].clone());
                assert_eq!(read(&path, of, rows), expected.collect::<Vec<_>>(), "{}", of.path);
            }
        };
        assembled(&path, &parts(&[0, 1, 2]), 1 + case % 2).complete().unwrap();
        check(&[0, 1, 2]);
        // Episodes of that store, in another order, and a new one among them.
        let old = |number: usize| Source::Store {
            begin: vec![counts[..number].iter().sum::<usize>() as u64],
            rows: vec![counts[number] as u64],
            about: json!({"rows": counts[number]}),
        };
        assembled(&path, &[old(2), Source::StorePart(part(3)), old(0), old(1)], 2)
            .complete()
            .unwrap();
        check(&[2, 3, 0, 1]);
        let again = files(&path);
        assembled(&path, &parts(&[2, 3, 0, 1]), 1).complete().unwrap();
        assert_eq!(again, files(&path), "case {case}");
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
    Table { columns, ends: "t/episode_ends".into(), sorted_by: None }
}

#[test]
fn images_with_loss_are_read_as_they_were_decoded() {
    let mut random = Random::new(21);
    let folder = TempDir::new().unwrap();
    let (part, store) = (folder.path().join("part"), folder.path().join("x.zarr"));
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
    assembled(&store, &[Source::StorePart(part)], 1).complete().unwrap();
    for (column, of) in images().columns.iter().enumerate() {
        let Codec::Jpeg(jpeg) = of.codec else { panic!("{of:?}") };
        let array = Array::of(&store.join(&of.path)).unwrap();
        assert_eq!(array.codec.clone(), Codec::Jpeg(jpeg));
        let size = of.row_bytes();
        let mut found = vec![0; 11 * size];
        array.read_ranges(&[0..11], &mut found, 2).unwrap();
        let (mut pixels, mut file, mut expected) = (Vec::new(), Vec::new(), vec![0; size]);
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
    let (part, store) = (folder.path().join("part"), folder.path().join("x.zarr"));
    let limits = WriterLimits { threads: 1, memory: 300 };
    let writer = PartWriter::create(&part, vec![images()], limits).unwrap();
    writer.complete(json!({})).unwrap();
    assembled(&store, &[Source::StorePart(part)], 1).complete().unwrap();
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
