//! Watches the takes of one subscription.

use super::middleware::MiddlewareError;

/// If the middleware fails this often in a row to give a message of one subscription, the node
/// ends.
const FAILURES: u32 = 10;

/// Failures of the takes of one subscription: one is logged once, and only repeated ones end the node.
#[derive(Default)]
pub(crate) struct Takes {
    /// Failures since the last take that succeeded.
    in_a_row: u32,
    logged: bool,
}

impl Takes {
    /// Notes the outcome of a take, and returns what was taken. A failure counts as nothing taken.
    ///
    /// # Errors
    /// This was the last of [`FAILURES`] failures in a row.
    pub(crate) fn note<T>(
        &mut self,
        taken: Result<Option<T>, MiddlewareError>,
    ) -> Result<Option<T>, MiddlewareError> {
        let error = match taken {
            Ok(taken) => {
                self.in_a_row = 0;
                return Ok(taken);
            }
            Err(error) => error,
        };
        self.in_a_row += 1;
        if self.in_a_row == FAILURES {
            return Err(error);
        }
        if !self.logged {
            self.logged = true;
            tracing::warn!(
                "{error}; the node stops working if this happens {FAILURES} times in a row"
            );
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
