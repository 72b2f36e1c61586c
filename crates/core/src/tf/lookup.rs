//! Looks a transform up along the chains of two frames.

use super::{
    Buffer, Found, FrameId, LookupError, MAX_DEPTH, Moving, Row, Transform, plain, trimmed,
};
use robocache_ops::align::{AlignRule, Fill, Position, Strategy, Value, align};
use robocache_ops::time::Stamp;

/// A frame, and what takes points of the first frame of a climb to it.
#[derive(Clone, Copy)]
struct Rung {
    frame: FrameId,
    found: Found,
}

/// The frames from one to an ancestor.
struct Climb {
    all: Vec<Rung>,
    /// Why it did not go on; `None` if the last frame is a root, or the one that was looked for.
    stopped: Option<LookupError>,
}

impl Climb {
    fn last(&self) -> Rung {
        self.all[self.all.len() - 1]
    }

    fn place(&self, frame: FrameId) -> Option<usize> {
        self.all.iter().position(|rung| rung.frame == frame)
    }
}

impl Buffer {
    /// Returns `t_target_source` at `stamp`: it takes points of `source` to `target`.
    ///
    /// # Errors
    /// [`LookupError`] names the missing link. Of two, the one that waiting can help.
    pub fn lookup(
        &self,
        target: &str,
        source: &str,
        stamp: Stamp,
    ) -> Result<Transform, LookupError> {
        self.find(target, source, stamp).map(|found| found.transform)
    }

    /// As [`Buffer::lookup`], and says when that became known.
    ///
    /// # Errors
    /// Those of [`Buffer::lookup`].
    pub fn find(&self, target: &str, source: &str, stamp: Stamp) -> Result<Found, LookupError> {
        let target = trimmed(target);
        let source = trimmed(source);
        if target == source {
            return Ok(Found { transform: Transform::IDENTITY, arrival: None });
        }
        for name in [target, source] {
            plain(name).map_err(|_| LookupError::Name { found: name.len() })?;
        }
        let known = |name: &str| {
            let unknown = || LookupError::UnknownFrame { frame: name.to_owned() };
            self.ids.get(name).copied().ok_or_else(unknown)
        };
        let target = known(target)?;
        let source = known(source)?;
        let up = self.climb(source, stamp, |frame| frame == target);
        let down = self.climb(target, stamp, |frame| up.place(frame).is_some());
        let Rung { frame: meeting, found: target_side } = down.last();
        if let Some(place) = up.place(meeting) {
            let source_side = up.all[place].found;
            let transform = target_side.transform.inverse().after(&source_side.transform);
            let arrival = target_side.arrival.max(source_side.arrival);
            return Ok(Found { transform, arrival });
        }
        Err(self.no_chain([target, source], &down, &up))
    }

    /// The names of all frames that it knows.
    pub fn names(&self) -> Vec<&str> {
        self.ids.keys().map(|name| &**name).collect()
    }

    /// Why two climbs did not meet.
    fn no_chain(&self, [target, source]: [FrameId; 2], down: &Climb, up: &Climb) -> LookupError {
        let name = |frame: FrameId| self.frames[frame as usize].name.to_string();
        match (&up.stopped, &down.stopped) {
            (Some(up), Some(down)) if down.waiting_helps() && !up.waiting_helps() => down.clone(),
            (Some(error), _) | (None, Some(error)) => error.clone(),
            (None, None) => {
                let roots = [up.last().frame, down.last().frame];
                let silent = roots.into_iter().find(|root| self.frames[*root as usize].of_gyro);
                let [source_root, target_root] = roots.map(name);
                match silent {
                    Some(gyro) => LookupError::NoGyro { frame: name(gyro) },
                    None => LookupError::NotConnected {
                        source_frame: name(source),
                        target_frame: name(target),
                        source_root,
                        target_root,
                    },
                }
            }
        }
    }

    /// Goes from a frame to its parents, until `ends`, or until a frame has no parent.
    fn climb(&self, from: FrameId, stamp: Stamp, ends: impl Fn(FrameId) -> bool) -> Climb {
        let mut climb = Climb { all: Vec::with_capacity(8), stopped: None };
        let found = Found { transform: Transform::IDENTITY, arrival: None };
        climb.all.push(Rung { frame: from, found });
        loop {
            let Rung { frame, found } = climb.last();
            if ends(frame) {
                return climb;
            }
            match self.parent(frame, stamp) {
                Ok(None) => return climb,
                Ok(Some(_)) if climb.all.len() > MAX_DEPTH => {
                    let frame = self.frames[from as usize].name.to_string();
                    climb.stopped = Some(LookupError::Loop { frame, most: MAX_DEPTH });
                    return climb;
                }
                Ok(Some(row)) => {
                    let transform = row.transform.after(&found.transform);
                    let found = Found { transform, arrival: found.arrival.max(row.arrival) };
                    climb.all.push(Rung { frame: row.parent, found });
                }
                Err(error) => {
                    climb.stopped = Some(error);
                    return climb;
                }
            }
        }
    }

    /// The transform of a frame to its parent at `stamp`; `None` if it has no parent.
    fn parent(&self, frame: FrameId, stamp: Stamp) -> Result<Option<Row>, LookupError> {
        let frame = &self.frames[frame as usize];
        if let Some((epoch, _, row)) = frame.fixed {
            let arrival = row.arrival.filter(|_| epoch == self.epoch);
            return Ok(Some(Row { arrival, ..row }));
        }
        match &frame.moving {
            // Of an epoch that is over: the frame may have a parent again.
            Some(moving) if !moving.ring.is_empty() => {
                self.interpolate(&frame.name, frame.max_gap_ns, moving, stamp).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn interpolate(
        &self,
        name: &str,
        max_gap_ns: i64,
        moving: &Moving,
        stamp: Stamp,
    ) -> Result<Row, LookupError> {
        let Moving { ring, rows, .. } = moving;
        let stamp_at = |at: usize| ring.entry(Position::new(at)).stamp;
        let row = |at: Position| rows[ring.entry(at).slot.index()];
        // With an age of 0 a row alone counts at its own stamp only.
        let strategy = Strategy::Linear;
        let max_age_ns = 0;
        let fill = Fill::Zero;
        let rule = AlignRule { strategy, max_age_ns, max_gap_ns: i64::MAX, fill };
        let found = align(rule, ring.len(), stamp_at, stamp);
        let child = || name.to_owned();
        match found.value {
            Value::Row(at) if found.valid => Ok(row(at)),
            Value::Between { a, b, .. } => {
                let gap_ns = stamp_at(b.index()).since(stamp_at(a.index()));
                if row(a).parent != row(b).parent {
                    let parent = |at| self.frames[row(at).parent as usize].name.to_string();
                    let before = parent(a);
                    let after = parent(b);
                    return Err(LookupError::NewParent { child: child(), stamp, before, after });
                }
                if gap_ns > max_gap_ns {
                    return Err(LookupError::Gap { child: child(), stamp, gap_ns, max_gap_ns });
                }
                let weight = stamp.since(stamp_at(a.index())) as f64 / gap_ns as f64;
                let transform = Transform::between(&row(a).transform, &row(b).transform, weight);
                let arrival = row(a).arrival.max(row(b).arrival);
                Ok(Row { transform, arrival, ..row(a) })
            }
            _ if stamp < stamp_at(0) => {
                let oldest = stamp_at(0);
                Err(LookupError::TooOld { child: child(), stamp, oldest })
            }
            _ => {
                let newest = stamp_at(ring.len() - 1);
                Err(LookupError::TooNew { child: child(), stamp, newest })
            }
        }
    }
}
