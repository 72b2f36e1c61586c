//! Messages of any type: the numbers that a [`FieldReader`] selects.

use std::sync::Arc;

use super::{Input, Sink, header};
use crate::cdr::Reader;
use crate::rejected::Rejected;
use crate::sample::{Header, Sample, StampError};
use crate::schema::{FieldReader, StampSource};

/// Makes an input that reads by a plan.
pub(super) fn open(plan: &Arc<FieldReader>) -> Box<dyn Input> {
    Box::new(SelectedInput { plan: Arc::clone(plan), values: Vec::new() })
}

struct SelectedInput {
    plan: Arc<FieldReader>,
    /// The row, and the stamp after it if the plan reads one.
    values: Vec<f64>,
}

impl Input for SelectedInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let mut header = match self.plan.has_header() {
            true => header(&mut reader.clone())?,
            // Its stamp is not used: the configuration gives such inputs the time of arrival.
            false => Header { stamp: Err(StampError::Zero), frame_id: "", child_frame_id: "" },
        };
        // The numbers come first, as the stamp may be one of them.
        self.plan.read(&mut reader, &mut self.values)?;
        let row = match (self.plan.stamp(), self.values.as_slice()) {
            (StampSource::Member, [row @ .., sec, nanosec]) => {
                // Both came from 32-bit integers, which an f64 holds exactly.
                header.stamp = StampError::check(*sec as i32, *nanosec as u32);
                row
            }
            (_, row) => row,
        };
        if let Some(sink) = sink.admit(&header) {
            sink.sample(0, Sample::Vector(row));
        }
        Ok(())
    }
}
