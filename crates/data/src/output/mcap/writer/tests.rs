use std::fs;

use mcap::Summary;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};

use super::*;

/// Numbers that zstd cannot compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn head() -> Head<'static> {
    let topic = |name| Topic {
        name,
        ros_type: "robocache_ros/msg/FusedTensor",
        definition: "uint8[] data\n".into(),
        metadata: BTreeMap::from([("offered_qos_profiles".to_owned(), "- depth: 1".to_owned())]),
    };
    Head { library: "tests", topics: vec![topic("/a"), topic("/b")] }
}

fn metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("bag".to_owned(), "robot.mcap".to_owned())])
}

/// Messages as those of ticks: each has an image of noise that comes five times. A last one is small.
fn messages() -> Vec<(u16, [u64; 2], Vec<u8>)> {
    let tick = |tick: u64| {
        let message = [tick.to_le_bytes().to_vec(), noise(900_000, tick / 5)].concat();
        (0, [1_000 + 10 * tick, 990 + 10 * tick], message)
    };
    (0..30).map(tick).chain([(1, [1_295, 5], b"last".to_vec())]).collect()
}

fn written(name: &str, threads: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut writer =
        McapWriter::create(File::create(&path).unwrap(), &path, &head(), threads).unwrap();
    for (sequence, (topic, times, message)) in (1..).zip(messages()) {
        writer.write(topic, sequence, times, &message).unwrap();
    }
    writer.finish("robocache", &metadata()).unwrap();
    fs::read(&path).unwrap()
}

/// The kinds of the records, as a reader with all checks finds them.
fn checked(file: &[u8]) -> Vec<u8> {
    let options = LinearReaderOptions::default()
        .with_prevalidate_chunk_crcs(true)
        .with_validate_data_section_crc(true)
        .with_validate_summary_section_crc(true)
        .with_check_finishes_after_end_magic(true);
    let mut reader = LinearReader::new_with_options(options);
    let mut kinds = Vec::new();
    let mut rest = file;
    while let Some(event) = reader.next_event() {
        match event.unwrap() {
            LinearReadEvent::ReadRequest(wanted) => {
                let len = wanted.min(rest.len());
                reader.insert(len).copy_from_slice(&rest[..len]);
                reader.notify_read(len);
                rest = &rest[len..];
            }
            LinearReadEvent::Record { opcode, .. } => kinds.push(opcode),
        }
    }
    kinds
}

#[test]
fn a_file_has_every_message_its_index_finds_them_and_threads_do_not_change_a_byte() {
    let file = written("one.mcap", 1);
    assert!(file == written("four.mcap", 4));
    let expected = messages();
    let kinds = checked(&file);
    let messages = kinds.into_iter().filter(|kind| *kind == op::MESSAGE);
    assert_eq!(messages.count(), expected.len());
    let read: Vec<_> = mcap::MessageStream::new(&file).unwrap().map(Result::unwrap).collect();
    for ((sequence, (topic, times, message)), read) in (1..).zip(&expected).zip(&read) {
        assert_eq!((read.sequence, [read.log_time, read.publish_time]), (sequence, *times));
        assert_eq!(read.channel.topic, ["/a", "/b"][usize::from(*topic)]);
        assert!(*read.data == **message);
    }
    let summary = Summary::read(&file).unwrap().unwrap();
    let stats = summary.stats.as_ref().unwrap();
    assert_eq!((stats.message_count, stats.chunk_count), (31, 4));
    assert_eq!((stats.message_start_time, stats.message_end_time), (1_000, 1_295));
    assert_eq!(stats.channel_message_counts, BTreeMap::from([(1, 30), (2, 1)]));
    assert_eq!(summary.channels[&2].schema.as_ref().unwrap().data[..], b"uint8[] data\n"[..]);
    let mut found = 0;
    for chunk in &summary.chunk_indexes {
        let indexes = summary.read_message_indexes(&file, chunk).unwrap();
        let places = indexes.iter().flat_map(|(of, places)| places.iter().map(move |at| (of, at)));
        for (channel, place) in places {
            let message = summary.seek_message(&file, chunk, place).unwrap();
            let same = |(_, times, data): &&(u16, [u64; 2], Vec<u8>)| {
                times[0] == place.log_time && **data == *message.data
            };
            assert!(message.channel.id == channel.id && expected.iter().any(|of| same(&of)));
            found += 1;
        }
    }
    assert_eq!(found, 31);
    let metadata = mcap::read::metadata(&file, &summary.metadata_indexes[0]).unwrap();
    assert_eq!(metadata.metadata, self::metadata());
}

/// The six images are stored once in each chunk that they are in, although noise lies between and does not compress.
#[test]
fn an_image_that_repeats_costs_its_bytes_once_in_a_chunk() {
    let file = written("repeats.mcap", 1);
    // Ten messages per chunk: two images each.
    assert!((6 * 900_000..6 * 900_000 + 200_000).contains(&file.len()), "{}", file.len());
}

#[test]
fn a_file_that_cannot_be_written_ends_the_caller_and_no_thread_waits() {
    let path = Path::new("/dev/full");
    let file = || File::options().write(true).open(path).unwrap();
    assert!(McapWriter::create(file(), path, &head(), 2).is_err());
    // The beginning fits, and the chunks do not.
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("closed.mcap");
    File::create(&there).unwrap();
    let mut writer = McapWriter::create(File::create(&there).unwrap(), &there, &head(), 3).unwrap();
    lock(&writer.threads.shared().written).file = file();
    let mut outcome = Ok(());
    for (topic, times, message) in messages() {
        outcome = outcome.and_then(|()| writer.write(topic, 1, times, &message));
    }
    let error = outcome.and_then(|()| writer.finish("robocache", &metadata())).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull, "{error}");
}
