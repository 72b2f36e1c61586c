//! The tasks of episodes.

use std::collections::HashSet;

use super::About;

/// A part of an episode that has a task of its own: until the next part begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct TaskFrom {
    /// The stamp of its first frame \[ns\].
    pub begin_ns: i64,
    /// Text of the task; empty without a task.
    pub task: String,
}

/// The texts of all tasks of episodes, each once, in the order in which they come first. An empty text is no task.
pub(super) fn tasks_of(episodes: &[About]) -> Vec<String> {
    let mut known = HashSet::new();
    let all = episodes.iter().flat_map(|about| {
        let parts = about.tasks.iter().map(|part| &part.task);
        about.task.iter().chain(parts)
    });
    all.filter(|task| !task.is_empty() && known.insert(*task)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_is_there_once_in_the_order_of_the_episodes() {
        let text = r#"[
            {"name": "0", "task": "place"},
            {"name": "1"},
            {"name": "2", "task": "pick", "tasks": [
                {"begin_ns": 1, "task": "pick"}, {"begin_ns": 5, "task": ""}, {"begin_ns": 9, "task": "place"}
            ]},
            {"name": "3", "task": "open"}
        ]"#;
        let episodes: Vec<About> = serde_json::from_str(text).unwrap();
        assert_eq!(tasks_of(&episodes), ["place", "pick", "open"]);
        assert_eq!(episodes[2].tasks[2], TaskFrom { begin_ns: 9, task: "place".to_owned() });
        let again: Vec<About> =
            serde_json::from_str(&serde_json::to_string(&episodes).unwrap()).unwrap();
        assert_eq!(again, episodes);
    }
}
