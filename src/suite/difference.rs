//! What is in one text and not in the other, line by line.

/// Lines from which on two texts are shown one after the other instead of compared.
const MOST_LINES: usize = 1_000;

/// The lines of both, those of the first alone behind `-`, of the second alone behind `+`.
#[must_use]
pub fn difference(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.trim_end().lines().map(str::trim_end).collect();
    let new: Vec<&str> = new.trim_end().lines().map(str::trim_end).collect();
    let mut text = String::new();
    let mut put = |mark: char, line: &str| {
        text.push(mark);
        text.push(' ');
        text.push_str(line);
        text.push('\n');
    };
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        for line in old {
            put('-', line);
        }
        for line in new {
            put('+', line);
        }
        return text;
    }
    // The longest run of common lines from each pair of places on.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for row in (0..old.len()).rev() {
        for column in (0..new.len()).rev() {
            common[row * width + column] = if old[row] == new[column] {
                common[(row + 1) * width + column + 1] + 1
            } else {
                common[(row + 1) * width + column].max(common[row * width + column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < old.len() || column < new.len() {
        if row < old.len() && column < new.len() && old[row] == new[column] {
            put(' ', old[row]);
            row += 1;
            column += 1;
        } else if column == new.len()
            || (row < old.len() && common[(row + 1) * width + column] >= common[row * width + column + 1])
        {
            put('-', old[row]);
            row += 1;
        } else {
            put('+', new[column]);
            column += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_stay_are_shown_between_those_that_go_and_come() {
        assert_eq!(
            difference("a\nb\nc\n", "a\nx\nc\nd\n"),
            "  a\n- b\n+ x\n  c\n+ d\n"
        );
        assert_eq!(difference("", "a"), "+ a\n");
        assert_eq!(difference("a  \n", "a\n"), "  a\n");
    }
}
