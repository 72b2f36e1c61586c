//! Episodes that objects of Python read, such as those of a dataset: `robocache.datasets.kinds` has the kinds.
//!
//! An object has these attributes:
//!
//! - `name`: of the episode; `path`: what stands for its bag in results and errors; `task`: text or None;
//! - `made_of`: a text that differs if its arrays may differ;
//! - `topics`: a list of (name, ROS type, number of frames, array). The array says what a frame has: a list of names for a
//!   position of each joint, (height, width) for the pixels of an image, None for the file of a picture;
//! - `span_ns`: the stamps of the first and the last frame, or None;
//! - `decoded`: a dict by topic of how its numbers were decoded, in words;
//! - `about()`: a dict of what the results say of the episode beside that. It is called when the arrays were read. Its
//!   `task` takes the place of the attribute. If the task changes, it has `tasks: [{"begin_ns": int, "task": str}, ...]`;
//! - `arrays(wanted)`: `wanted` has a bool for each topic. Returns an iterator of lists of (number of the topic,
//!   stamp \[ns\], bytes), in the order of the stamps. The bytes are those of the array: positions of float64 and pixels of
//!   three bytes (RGB), little-endian and without gaps, or a file of PNG or JPEG. A thread of the replay calls it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;
use pythonize::depythonize;
use robocache_data::bag::{
    BagError, Problem, Problems, Reading, Recorded, Sorted, Storage, Topic, TopicArray,
};
use robocache_data::replay::{Episode, Given, Source};
use robocache_ops::time::Stamp;
use serde_json::{Map, Value};

/// The episodes of these objects.
///
/// # Errors
/// An attribute is missing or of another type.
pub(crate) fn episodes(recordings: &[Bound<'_, PyAny>]) -> PyResult<Vec<Episode>> {
    let episode = |object: &Bound<'_, PyAny>| {
        let bag: PathBuf = object.getattr("path")?.extract()?;
        let made_of = object.getattr("made_of")?.extract()?;
        let decoded: BTreeMap<String, String> = object.getattr("decoded")?.extract()?;
        let decoded = decoded.into_iter().collect();
        let object_of = object.clone().unbind();
        let recording = Recording { object: object_of, path: bag.clone(), made_of, decoded };
        Ok(Episode {
            bag,
            given: Some(Given(Arc::new(recording))),
            name: object.getattr("name")?.extract()?,
            task: object.getattr("task")?.extract()?,
            ..Episode::default()
        })
    };
    recordings.iter().map(episode).collect()
}

struct Recording {
    object: Py<PyAny>,
    path: PathBuf,
    made_of: String,
    decoded: Vec<(String, String)>,
}

impl Source for Recording {
    fn open(&self) -> Result<Box<dyn Storage>, BagError> {
        let opened = Python::attach(|py| Opened::new(self.object.bind(py), &self.path));
        let damaged = |what| BagError::Damaged { path: self.path.clone(), what };
        Ok(Box::new(opened.map_err(|error| damaged(text_of(&error)))?))
    }

    fn made_of(&self) -> String {
        self.made_of.clone()
    }

    fn decoded(&self) -> Vec<(String, String)> {
        self.decoded.clone()
    }

    fn about(&self) -> Result<Map<String, Value>, BagError> {
        let damaged = |what| BagError::Damaged { path: self.path.clone(), what };
        Python::attach(|py| {
            let said = self.object.bind(py).call_method0("about");
            let said = said.map_err(|error| damaged(text_of(&error)))?;
            depythonize(&said).map_err(|error| damaged(format!("about(): {error}")))
        })
    }
}

/// The array that a topic has in each frame.
#[derive(FromPyObject)]
enum FrameArray {
    Pixels((usize, usize)),
    Joints(Vec<String>),
}

impl From<FrameArray> for TopicArray {
    fn from(array: FrameArray) -> Self {
        match array {
            FrameArray::Pixels((height, width)) => TopicArray::Pixels([width, height]),
            FrameArray::Joints(names) => TopicArray::Joints(names),
        }
    }
}

/// A recording whose topics are known.
#[derive(Debug)]
struct Opened {
    object: Py<PyAny>,
    path: PathBuf,
    topics: Vec<Topic>,
    span: Option<(Stamp, Stamp)>,
}

impl Opened {
    fn new(object: &Bound<'_, PyAny>, path: &Path) -> PyResult<Self> {
        let topics: Vec<(String, String, u64, Option<FrameArray>)> =
            object.getattr("topics")?.extract()?;
        let span: Option<(i64, i64)> = object.getattr("span_ns")?.extract()?;
        let topic = |(name, ros_type, messages, array): (_, _, _, Option<FrameArray>)| Topic {
            name,
            ros_type,
            format: "array".to_owned(),
            definition: None,
            messages: Some(messages),
            offered_qos: String::new(),
            array: Some(Arc::new(array.map_or(TopicArray::Picture, TopicArray::from))),
        };
        Ok(Opened {
            object: object.clone().unbind(),
            path: path.to_owned(),
            topics: topics.into_iter().map(topic).collect(),
            span: span.map(|(first, last)| (Stamp::from_nanos(first), Stamp::from_nanos(last))),
        })
    }
}

impl Storage for Opened {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn span(&self) -> Option<(Stamp, Stamp)> {
        self.span
    }

    fn read(&self, wanted: &[Option<usize>], sorted: Sorted) -> Result<Box<dyn Reading>, BagError> {
        let begun = Python::attach(|py| {
            let chosen = PyList::new(py, wanted.iter().map(Option::is_some))?;
            let batches = self.object.bind(py).call_method1("arrays", (chosen,))?;
            Ok(batches.try_iter()?.into_any().unbind())
        });
        let batches = begun.map_err(|error: PyErr| BagError::Damaged {
            path: self.path.clone(),
            what: text_of(&error),
        })?;
        Ok(Box::new(Batches {
            batches: Some(batches),
            path: self.path.clone(),
            wanted: wanted.to_vec(),
            arrays: self.topics.iter().map(|topic| topic.array.clone()).collect(),
            sorted,
            ready: VecDeque::new(),
            newest: Stamp::MIN,
        }))
    }
}

/// The messages that an iterator of Python gives.
struct Batches {
    /// `None` after its end.
    batches: Option<Py<PyAny>>,
    path: PathBuf,
    wanted: Vec<Option<usize>>,
    /// By topic.
    arrays: Vec<Option<Arc<TopicArray>>>,
    sorted: Sorted,
    ready: VecDeque<Recorded>,
    newest: Stamp,
}

impl Batches {
    /// The next batch; `None` at the end.
    fn batch(&mut self) -> PyResult<Option<()>> {
        let Some(batches) = &self.batches else { return Ok(None) };
        let batch = Python::attach(|py| -> PyResult<Option<Vec<(usize, i64, PyBackedBytes)>>> {
            let next = batches.bind(py).call_method0("__next__");
            match next {
                Ok(batch) => batch.extract().map(Some),
                Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => {
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })?;
        let Some(batch) = batch else { return Ok(None) };
        for (topic, received, bytes) in batch {
            let received = Stamp::from_nanos(received);
            if received < self.newest {
                return Err(crate::errors::wrong(format!(
                    "expected messages in the order of their receive stamps, found {received} after {}",
                    self.newest
                )));
            }
            self.newest = received;
            // Pixels of another width would pass for those of this one.
            let array = self.arrays.get(topic).and_then(Option::as_ref);
            if let Some(expected) = array.and_then(|array| array.byte_len())
                && bytes.len() != expected
            {
                let found = bytes.len();
                return Err(crate::errors::wrong(format!(
                    "topic {topic}: expected an array of {expected} bytes, found {found}"
                )));
            }
            let Some(Some(topic)) = self.wanted.get(topic).copied() else { continue };
            if self.sorted.may_have(received) {
                let bytes = Bytes::from_owner(bytes);
                self.ready.push_back(Recorded { topic, received, published: None, bytes });
            }
        }
        Ok(Some(()))
    }
}

impl Reading for Batches {
    fn next(&mut self, problems: &mut Problems) -> Option<Recorded> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            match self.batch() {
                Ok(Some(())) => {}
                Ok(None) => self.batches = None,
                Err(error) => {
                    self.batches = None;
                    let path = self.path.clone();
                    let what = text_of(&error);
                    // What was read of it must not pass for the whole episode.
                    problems.push(Problem { path, what, unreadable: true });
                }
            }
            self.batches.as_ref()?;
        }
    }
}

/// Text of an exception, without its traceback.
fn text_of(error: &PyErr) -> String {
    Python::attach(|py| {
        let kind = error.get_type(py);
        let value = error.value(py);
        let text = value.to_string();
        let is_said = error.is_instance_of::<pyo3::exceptions::PyValueError>(py)
            || error.is_instance_of::<pyo3::exceptions::PyOSError>(py);
        match is_said {
            true => text,
            false => format!("{kind}: {text}"),
        }
    })
}
