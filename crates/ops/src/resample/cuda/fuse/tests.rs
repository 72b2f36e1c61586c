use super::*;

#[test]
fn bytes_are_copied_once_and_as_widely_as_they_are_aligned() {
    for start in (0..70).chain([4096, 4100, 4102, 4103]) {
        for row_at in [0, 64, 6, 12, 33] {
            for len in 0..70 {
                let [whole, rest] = copied(start, row_at, len);
                assert_eq!([whole.at, rest.at], [row_at, row_at + whole.len]);
                assert_eq!(whole.len + rest.len, len);
                assert!(rest.len < whole.unit && rest.unit == 1);
                let fits = |unit: usize| start % unit == 0 && row_at % unit == 0;
                assert_eq!(whole.len % whole.unit, 0);
                assert_eq!(Some(whole.unit), [16, 4, 2, 1].into_iter().find(|unit| fits(*unit)));
            }
        }
    }
}
