use super::*;

#[test]
fn what_the_system_could_not_read_is_told_however_many_problems_there_are() {
    let problem = |number: usize, unreadable| Problem {
        unreadable,
        ..Problem::damage(Path::new("x"), number.to_string())
    };
    let mut read = Problems::default();
    (0..40).for_each(|number| read.push(problem(number, false)));
    read.push(problem(40, true));
    let mut all = Problems::default();
    all.join(read);
    assert!(all.unreadable && all.first.iter().any(|problem| problem.unreadable));
    assert_eq!((all.first.len(), all.more), (Problems::KEPT + 1, 8));
}
