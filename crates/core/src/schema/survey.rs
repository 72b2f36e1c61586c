//! Which numbers the messages of a type have: what a selection could take.

use std::sync::Arc;

use serde::Serialize;

use super::compile::{HEADER, TIME};
use super::shape::Shape;
use super::{Count, Kind, Member, Number, Struct};
use crate::cdr::{CdrError, Reader};

const QUATERNION: &str = "geometry_msgs/msg/Quaternion";
const DURATION: &str = "builtin_interfaces/msg/Duration";
/// Most paths that are looked at.
const MOST_LEAVES: usize = 256;
/// Most elements of a list whose values are looked at.
const MOST_ELEMENTS: usize = 64;

/// Looks at the numbers of messages of one type.
#[derive(Clone, Debug)]
pub struct Survey {
    steps: Vec<Step>,
    leaves: Vec<Leaf>,
    has_header: bool,
    times: Vec<String>,
    lists: Vec<String>,
}

/// Numbers of one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaf {
    /// The path, as `select` takes it.
    pub path: String,
    /// How many numbers it had, at least and at most. A path that never had any has 0.
    pub numbers: [usize; 2],
    /// True if the number varies from message to message because it is a list.
    pub is_list: bool,
    /// True if they are the four numbers of a quaternion.
    pub is_quaternion: bool,
    /// True if they are whole numbers or truth values.
    pub is_whole: bool,
    /// Messages in which one was NaN or infinite, among the first 64.
    pub non_finite: u64,
    /// The least and the greatest of the first 64; `None` if there was none.
    pub range: Option<[f64; 2]>,
}

#[derive(Clone, Debug)]
enum Step {
    Skip(Shape),
    Inside(Vec<Step>),
    /// The leaf of this number: its elements, one after the other.
    Leaf(usize, Vec<Number>, Count),
}

impl Survey {
    /// For messages of `root`.
    ///
    /// # Errors
    /// The name of a `wstring`, which cannot be read past.
    pub fn new(root: &Arc<Struct>) -> Result<Self, String> {
        let mut survey = Survey {
            steps: Vec::new(),
            leaves: Vec::new(),
            has_header: root.has_header(),
            times: Vec::new(),
            lists: Vec::new(),
        };
        survey.steps = survey.steps_of(root, "")?;
        Ok(survey)
    }

    fn steps_of(&mut self, of: &Struct, before: &str) -> Result<Vec<Step>, String> {
        of.members
            .iter()
            .map(|member| self.step(member, &format!("{before}{}", member.name)))
            .collect()
    }

    fn step(&mut self, member: &Member, path: &str) -> Result<Step, String> {
        let skip = || Shape::of(member).map(Step::Skip);
        if self.leaves.len() == MOST_LEAVES {
            return skip();
        }
        match (&member.kind, member.count) {
            (Kind::Number(number), count) => Ok(self.leaf(path, vec![*number], count, false)),
            (Kind::Struct(inner), Count::One) => match inner.name.as_str() {
                HEADER | DURATION => skip(),
                TIME => {
                    self.times.push(path.to_owned());
                    skip()
                }
                name => match plain(inner) {
                    Some(numbers) if numbers.len() > 1 => {
                        Ok(self.leaf(path, numbers, Count::One, name == QUATERNION))
                    }
                    _ => self.steps_of(inner, &format!("{path}.")).map(Step::Inside),
                },
            },
            (Kind::Struct(_), _) => {
                self.lists.push(path.to_owned());
                skip()
            }
            (Kind::Text | Kind::WideText, _) => skip(),
        }
    }

    fn leaf(
        &mut self,
        path: &str,
        numbers: Vec<Number>,
        count: Count,
        is_quaternion: bool,
    ) -> Step {
        let is_float = |number: &Number| matches!(number, Number::F32 | Number::F64);
        self.leaves.push(Leaf {
            path: path.to_owned(),
            numbers: [usize::MAX, 0],
            is_list: count == Count::Sequence,
            is_quaternion,
            is_whole: !numbers.iter().any(is_float),
            non_finite: 0,
            range: None,
        });
        Step::Leaf(self.leaves.len() - 1, numbers, count)
    }

    /// True if a message begins with a `std_msgs/Header`.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// The paths of its numbers.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The paths of its times, outside of lists.
    pub fn times(&self) -> &[String] {
        &self.times
    }

    /// The paths of its lists of types. Their elements are not looked at.
    pub fn lists(&self) -> &[String] {
        &self.lists
    }

    /// Looks at a message.
    ///
    /// # Errors
    /// It is not what its type says.
    pub fn take(&mut self, message: &[u8]) -> Result<(), CdrError> {
        let mut reader = Reader::new(message)?;
        walk(&self.steps, &mut self.leaves, &mut reader)
    }
}

/// The numbers of a type that has nothing else.
fn plain(of: &Struct) -> Option<Vec<Number>> {
    let number = |member: &Member| match (&member.kind, member.count) {
        (Kind::Number(number), Count::One) => Some(*number),
        _ => None,
    };
    of.members.iter().map(number).collect()
}

fn walk(steps: &[Step], leaves: &mut [Leaf], reader: &mut Reader<'_>) -> Result<(), CdrError> {
    for step in steps {
        match step {
            Step::Skip(shape) => shape.skip(reader)?,
            Step::Inside(steps) => walk(steps, leaves, reader)?,
            Step::Leaf(at, numbers, count) => {
                let count = match count {
                    Count::One => 1,
                    Count::Fixed(len) => *len,
                    Count::Sequence => reader.u32()? as usize,
                };
                look(&mut leaves[*at], numbers, count, reader)?;
            }
        }
    }
    Ok(())
}

fn look(
    leaf: &mut Leaf,
    numbers: &[Number],
    count: usize,
    reader: &mut Reader<'_>,
) -> Result<(), CdrError> {
    let all = count.saturating_mul(numbers.len());
    leaf.numbers = [leaf.numbers[0].min(all), leaf.numbers[1].max(all)];
    let looked = count.min(MOST_ELEMENTS);
    let mut finite = true;
    for number in (0..looked).flat_map(|_| numbers) {
        let value = number.read(reader)?;
        if !value.is_finite() {
            finite = false;
            continue;
        }
        let [least, most] = leaf.range.unwrap_or([value, value]);
        leaf.range = Some([least.min(value), most.max(value)]);
    }
    leaf.non_finite += u64::from(!finite);
    // Only lists of single numbers have more than one element.
    let size = numbers[0].size();
    if count > looked { reader.skip(size, (count - looked).saturating_mul(size)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
