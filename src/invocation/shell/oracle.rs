//! The reader against brush-parser, a parser of bash that knows nothing of this one: words after quote removal,
//! assignments, and the operators that make pipelines and lists.
//!
//! Both are brought into one form. What is told apart on purpose stands in [`DELIBERATE`].

use std::fmt::Write as _;

use brush_parser::ast::UnexpandedArithmeticExpr;
use brush_parser::word::{
    self, Parameter, ParameterExpr, ParameterTestType, SpecialParameter, WordPiece, WordPieceWithSource,
};
use brush_parser::{ParserOptions, Token};

use super::{Kind, Otherwise, Piece, lex};

/// Scripts that are read differently on purpose, with the reason.
const DELIBERATE: [(&str, &str); 6] = [
    (
        "A\\\nB=x",
        "a name that goes on in the next line is not looked for",
    ),
    (
        "run --model <model-path> x",
        "a place that nobody filled in is one word, which is reported, and not two redirections",
    ),
    (
        "a |& b",
        "the error stream in a pipe changes nothing of what is executed: it is a plain pipe",
    ),
    (
        "a b\r\nc",
        "a carriage return before the end of a line is no part of the word that was meant",
    ),
    (
        "echo ~/a",
        "the home folder of the image is not known, so that the word stays as it is",
    ),
    (
        "echo $'a\\tb'",
        "escapes of ANSI C are not read: the rest of the script counts as unreadable",
    ),
];

/// A token or word in the form that both sides are brought into.
fn joined(parts: &[String]) -> String {
    let mut out = String::new();
    let mut text = String::new();
    let mut quoted_text = false;
    for part in parts {
        if let Some(plain) = part.strip_prefix("t:") {
            text.push_str(plain);
            quoted_text = true;
        } else {
            if quoted_text {
                write!(out, "[{text}]").unwrap();
            }
            text.clear();
            quoted_text = false;
            out.push_str(part);
        }
    }
    if !text.is_empty() || out.is_empty() {
        write!(out, "[{text}]").unwrap();
    }
    out.replace("[]", "")
}

fn mark(quoted: bool) -> &'static str {
    if quoted { "q" } else { "u" }
}

/// A default, without telling how it was quoted.
fn default_text(parts: &[String]) -> String {
    joined(parts)
        .replace("{q", "{")
        .replace("{u", "{")
        .replace("<q", "<")
        .replace("<u", "<")
}

fn ours(pieces: &[Piece]) -> Vec<String> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => format!("t:{text}"),
            Piece::Variable {
                name,
                otherwise: None,
                quoted,
            } => format!("{{{} {name}}}", mark(*quoted)),
            Piece::Variable {
                name,
                otherwise: Some((otherwise, word)),
                quoted,
            } => {
                let (sign, word) = match otherwise {
                    Otherwise::Use { empty, assign } => {
                        let sign = if *assign { "=" } else { "-" };
                        (format!("{}{sign}", colon(*empty)), default_text(&ours(word)))
                    }
                    Otherwise::Alternative { empty } => {
                        (format!("{}+", colon(*empty)), default_text(&ours(word)))
                    }
                    Otherwise::Fail => ("?".to_owned(), String::new()),
                };
                format!("{{{} {name}{sign}{word}}}", mark(*quoted))
            }
            Piece::Array { name, quoted, .. } => format!("{{{} {name}[@]}}", mark(*quoted)),
            Piece::Changed { quoted, .. } | Piece::Slice { quoted, .. } => {
                format!("{{{} other}}", mark(*quoted))
            }
            Piece::Arithmetic(inner) => format!("(({inner}))"),
            Piece::Unreadable { raw, quoted } => {
                let inner = raw
                    .strip_prefix("$(")
                    .and_then(|rest| rest.strip_suffix(')'))
                    .or_else(|| raw.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')));
                match inner {
                    Some(inner) => format!("<{} {}>", mark(*quoted), without_blanks(inner)),
                    None => format!("{{{} other}}", mark(*quoted)),
                }
            }
        })
        .collect()
}

/// The text of what is not executed, in which brush-parser writes one blank for several.
fn without_blanks(text: &str) -> String {
    text.replace("\\\n", "").split_whitespace().collect()
}

fn colon(empty: bool) -> &'static str {
    if empty { ":" } else { "" }
}

fn name_of(parameter: &Parameter) -> Option<String> {
    Some(match parameter {
        Parameter::Positional(number) => number.to_string(),
        Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate }) => {
            if *concatenate { "*" } else { "@" }.to_owned()
        }
        Parameter::Special(special) => special.to_string(),
        Parameter::Named(name) => name.clone(),
        Parameter::NamedWithAllIndices { name, .. } => format!("{name}[@]"),
        Parameter::NamedWithIndex { .. } => return None,
    })
}

fn expression(expression: &ParameterExpr, quoted: bool) -> String {
    let default = |parameter: &Parameter, test: &ParameterTestType, sign: &str, value: &Option<String>| {
        let empty = colon(matches!(test, ParameterTestType::UnsetOrNull));
        let word = theirs(value.as_deref().unwrap_or_default(), quoted);
        let word = default_text(&word);
        Some(format!("{}{empty}{sign}{word}", name_of(parameter)?))
    };
    let inner = match expression {
        ParameterExpr::Parameter {
            parameter,
            indirect: false,
        } => name_of(parameter),
        ParameterExpr::UseDefaultValues {
            parameter,
            indirect: false,
            test_type,
            default_value,
        } => default(parameter, test_type, "-", default_value),
        ParameterExpr::AssignDefaultValues {
            parameter,
            indirect: false,
            test_type,
            default_value,
        } => default(parameter, test_type, "=", default_value),
        ParameterExpr::UseAlternativeValue {
            parameter,
            indirect: false,
            test_type,
            alternative_value,
        } => default(parameter, test_type, "+", alternative_value),
        ParameterExpr::IndicateErrorIfNullOrUnset {
            parameter,
            indirect: false,
            ..
        } => name_of(parameter).map(|name| name + "?"),
        _ => None,
    };
    match inner {
        Some(inner) => format!("{{{} {inner}}}", mark(quoted)),
        None => format!("{{{} other}}", mark(quoted)),
    }
}

fn parts(pieces: &[WordPieceWithSource], quoted: bool, out: &mut Vec<String>) {
    for WordPieceWithSource { piece, .. } in pieces {
        out.push(match piece {
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) | WordPiece::AnsiCQuotedText(text) => {
                format!("t:{text}")
            }
            WordPiece::EscapeSequence(text) => {
                let text = text.strip_prefix('\\').unwrap_or(text);
                format!("t:{}", text.strip_prefix('\n').unwrap_or(text))
            }
            WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => {
                out.push("t:".to_owned());
                parts(inner, true, out);
                continue;
            }
            WordPiece::TildeExpansion(tilde) => format!("t:{tilde:?}"),
            WordPiece::ParameterExpansion(inner) => expression(inner, quoted),
            WordPiece::CommandSubstitution(inner) | WordPiece::BackquotedCommandSubstitution(inner) => {
                format!("<{} {}>", mark(quoted), without_blanks(inner))
            }
            WordPiece::ArithmeticExpression(UnexpandedArithmeticExpr { value }) => format!("(({value}))"),
        });
    }
}

fn theirs(text: &str, quoted: bool) -> Vec<String> {
    let mut out = Vec::new();
    let text = if quoted && !text.starts_with('"') {
        format!("\"{text}\"")
    } else {
        text.to_owned()
    };
    match word::parse(&text, &ParserOptions::default()) {
        Ok(pieces) => parts(&pieces, quoted, &mut out),
        Err(error) => out.push(format!("error {error}")),
    }
    out
}

/// A word of theirs, which may be an assignment.
fn unit(text: &str) -> String {
    let name = text.bytes().take_while(|b| super::is_name(*b)).count();
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = &text[name..];
    let (append, value) = match (rest.strip_prefix("+="), rest.strip_prefix('=')) {
        (Some(value), _) => ("+", value),
        (None, Some(value)) => ("", value),
        (None, None) => return joined(&theirs(text, false)),
    };
    if !starts {
        return joined(&theirs(text, false));
    }
    format!("{}{append}={}", &text[..name], joined(&theirs(value, false)))
}

const REDIRECTIONS: [&str; 12] = [
    "<", ">", ">>", "<<", "<<-", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>",
];

/// What brush-parser makes of a script, redirections left out; `None` where it refuses it.
fn oracle(script: &str) -> Option<Vec<String>> {
    let tokens =
        brush_parser::uncached_tokenize_str(script, &ParserOptions::default().tokenizer_options()).ok()?;
    let mut out: Vec<String> = Vec::new();
    let mut tokens = tokens.iter().peekable();
    let mut end = usize::MAX;
    while let Some(token) = tokens.next() {
        match token {
            Token::Operator(operator, location) if REDIRECTIONS.contains(&operator.as_str()) => {
                // Digits right before it are the stream.
                if location.start.index == end && out.last().is_some_and(|last| is_stream(last)) {
                    out.pop();
                }
                let words = if operator.starts_with("<<") && operator != "<<<" {
                    3
                } else {
                    1
                };
                for _ in 0..words {
                    end = tokens.next()?.location().end.index;
                }
            }
            Token::Operator(operator, location) => {
                let array = operator == "("
                    && location.start.index == end
                    && out.last().is_some_and(|last| last.ends_with('='));
                if array {
                    let mut items = Vec::new();
                    for token in tokens.by_ref() {
                        match token {
                            Token::Operator(operator, _) if operator == ")" => break,
                            Token::Operator(_, _) => {}
                            Token::Word(text, _) => items.push(joined(&theirs(text, false))),
                        }
                    }
                    let name = out.pop()?;
                    out.push(format!("{name}({})", items.join(" ")));
                } else {
                    out.push(format!("op {operator}"));
                }
                end = location.end.index;
            }
            Token::Word(text, location) => {
                out.push(unit(text));
                end = location.end.index;
            }
        }
    }
    Some(out)
}

fn is_stream(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The same of ours; `None` where a part cannot be read.
fn reader(script: &str) -> Option<Vec<String>> {
    let (tokens, reason) = lex(script);
    if reason.is_some() {
        return None;
    }
    let text = |token: &super::Token| match &token.kind {
        Kind::Word { pieces, .. } => Some(joined(&ours(pieces))),
        Kind::Assign { name, append, value } => Some(format!(
            "{name}{}={}",
            if *append { "+" } else { "" },
            joined(&ours(value))
        )),
        Kind::AssignArray { name, append, items } => {
            let items: Vec<String> = items.iter().map(|item| joined(&ours(item))).collect();
            let append = if *append { "+" } else { "" };
            Some(format!("{name}{append}=({})", items.join(" ")))
        }
        Kind::Operator(operator) => Some(format!("op {operator}")),
        Kind::Into { .. } | Kind::From { .. } | Kind::HereDocument { .. } => None,
    };
    Some(tokens.iter().filter_map(text).collect())
}

/// Ends with the two readings where they differ.
fn check(script: &str) -> Result<(), String> {
    match (reader(script), oracle(script)) {
        (Some(got), Some(expected)) if got == expected => Ok(()),
        (None, None) => Ok(()),
        (got, expected) => Err(format!("{script:?}\n  reader {got:?}\n  brush  {expected:?}")),
    }
}

#[test]
fn written_scripts_are_read_alike() {
    let scripts = [
        "vllm serve m --gpu-memory-utilization 0.9",
        "exec vllm serve \"$MODEL\" --port ${PORT:-8000} 2>&1 | tee /log",
        "A=1 B+=x C= vllm serve m",
        "A=(a 'b c' \"$D\")\nA+=(--x)\nvllm serve m \"${A[@]}\"",
        "cd /a && exec python3 -m vllm.entrypoints.openai.api_server || exit 1; echo done &",
        "cat <<EOF > /f\ntext $X\nEOF\nvllm serve --config /f",
        "cat <<-'EOF'\n\t$X\n\tEOF\necho a",
        "cat <<A <<B\na\nA\nb\nB\necho x",
        "echo $(date) `date` $((1 + 2 * (3))) \"$(a 'b')\"",
        "echo $(echo \")\") x",
        "echo \"$(echo \")\")\" x",
        "echo ${A:-'}'} x",
        "echo ${A:-\"}\"} x",
        "echo \"${A:-\"}\"}\" x",
        "echo ${A:-$(echo })} x",
        "echo ${A:-{}} x",
        "echo '{\"a\": 1}' \"{\\\"a\\\": 1}\"",
        "if [ -n \"$A\" ]; then vllm serve a; else vllm serve b; fi",
        "for i in 1 2 3; do echo $i; done",
        "while true; do sleep 1; done",
        "f() { vllm serve \"$@\"; }\nf m",
        "case $A in\na|b) c ;;\n*) d ;;\nesac",
        "a \\\n  b \\\n  c",
        "a# b #c\n# d\ne",
        "a;b&c&&d||e|f",
        "(a; b)",
        "a > f < g >> h 2> i &> j >& k 3<> l",
        "a <<< \"x $Y\" b",
        "echo a\\ b 'a'\"b\"c \"\" ''",
        "echo \"a\\$b \\` \\\\ \\n\"",
        "echo $1 $@ \"$@\" $# $? $$ $! ${10} ${1:-x}",
        "echo ${A} ${A:-b} ${A-b} ${A:=b} ${A:+b} ${A+b} ${A:?no}",
        "echo ${#A} ${A%x} ${A##x} ${A/x/y} ${A:1:2} ${!A}",
        "[[ $A == b* && -f c ]] || exit",
        "A=b=c -x=y a=b",
        "echo é ü \u{1F600}",
        "echo $ a$ \"$\" $\"x\"",
        "A[0]=x",
        "a\tb",
        "echo 1>f 2 >g a2>h",
        "",
        "\n\n;",
        "echo '",
        "echo \"$(",
        "echo ${A",
    ];
    let wrong: Vec<String> = scripts.iter().filter_map(|script| check(script).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_read_differently_still_is() {
    for (script, reason) in DELIBERATE {
        assert!(check(script).is_err(), "{script}: no longer different: {reason}");
    }
}

/// Scripts of forms that both know, put together at random.
struct Scripts(u64);

impl Scripts {
    /// A number below `end` (SplitMix64).
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let end = u64::try_from(end).unwrap();
        usize::try_from((z ^ (z >> 31)) % end).unwrap()
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    fn expansion(&mut self, depth: usize) -> String {
        match self.below(if depth > 2 { 4 } else { 8 }) {
            0 | 1 => self.pick(&["$A", "$1", "$@", "${A}", "${B_2}", "$#"]).to_owned(),
            2 => self
                .pick(&["$((1+2))", "$(( A * (2 + 1) ))", "$((A))"])
                .to_owned(),
            3 => self
                .pick(&["${A:?no}", "${A[@]}", "${#A}", "${A%.*}", "`b c`"])
                .to_owned(),
            4 | 5 => {
                let sign = self.pick(&[":-", "-", ":=", ":+", "+"]);
                let word = match self.below(3) {
                    0 => self.expansion(depth + 1),
                    1 => String::new(),
                    _ => self.pick(&["x", "0.9", "a/b", "--c=d"]).to_owned(),
                };
                format!("${{A{sign}{word}}}")
            }
            _ => {
                let inner = self.list(depth + 1, &["; ", " && ", " | ", " || "]);
                format!("$({inner})")
            }
        }
    }

    fn word(&mut self, depth: usize) -> String {
        let mut word = String::new();
        for _ in 0..=self.below(3) {
            match self.below(8) {
                0 => word.push_str(self.pick(&["'b c'", "'$A'", "''", "'\"'", "';'", "'a\nb'", "')'"])),
                1 => word.push_str(self.pick(&["\\ ", "\\$", "\\;", "\\\"", "\\a"])),
                2 => word.push_str(&self.expansion(depth)),
                3 => {
                    word.push('"');
                    for _ in 0..self.below(4) {
                        match self.below(3) {
                            0 => word.push_str(&self.expansion(depth)),
                            _ => word.push_str(self.pick(&[
                                "a b", "'", "\\\"", "\\$", "\\\\", "\\x", "#", ";", "\n", ")", "{}", "é",
                            ])),
                        }
                    }
                    word.push('"');
                }
                _ => word.push_str(self.pick(&[
                    "a", "--b", "-c=", "d/e", "0.9", ",", ":", "{", "}", "é", "f=g", "#",
                ])),
            }
        }
        word
    }

    /// A word where brush-parser reads amiss a comment, or what looks like one: in an array and in `$( … )`.
    fn item(&mut self, depth: usize) -> String {
        let word = self.word(depth);
        if word.trim_start_matches("\\\n").starts_with('#') {
            format!("a{word}")
        } else {
            word
        }
    }

    fn command(&mut self, depth: usize) -> String {
        let mut words = Vec::new();
        for _ in 0..self.below(3) / 2 {
            let name = self.pick(&["A=", "B+=", "C_1="]);
            words.push(format!("{name}{}", self.word(depth)));
        }
        words.push(self.pick(&["vllm", "exec", "echo", "x"]).to_owned());
        for _ in 0..self.below(5) {
            words.push(match self.below(12) {
                0 => format!("{} f", self.pick(&[">", ">>", "2>", "<", "&>"])),
                1 => "2>&1".to_owned(),
                _ if depth > 0 => self.item(depth),
                _ => self.word(depth),
            });
        }
        words.join(self.pick(&[" ", "  ", "\t", " \\\n "]))
    }

    fn list(&mut self, depth: usize, operators: &[&'static str]) -> String {
        let mut text = self.command(depth);
        for _ in 0..self.below(3) {
            text.push_str(self.pick(operators));
            text.push_str(&self.command(depth));
        }
        text
    }

    fn script(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(3) {
            match self.below(6) {
                0 => {
                    let tag = self.pick(&["EOF", "'EOF'", "\"E F\""]);
                    let end = tag.trim_matches(['\'', '"']);
                    let body = self.pick(&["a $A\n", "", "'\n", "$(x)\n\\$\n", "\"\n"]);
                    writeln!(text, "cat <<{tag} > f\n{body}{end}").unwrap();
                }
                1 => {
                    let words: Vec<String> = (0..self.below(4)).map(|_| self.item(1)).collect();
                    writeln!(text, "A=({})", words.join(" ")).unwrap();
                }
                2 => text.push_str("# it's a comment\n"),
                _ => {
                    text.push_str(&self.list(0, &["; ", " && ", " || ", " | ", " & ", ";", "|", "\n"]));
                    text.push_str(self.pick(&["\n", " # x\n", "\n\n", " &\n"]));
                }
            }
        }
        text
    }
}

#[test]
fn scripts_put_together_at_random_are_read_alike() {
    let count = std::env::var("VRAMGATE_SHELL_SCRIPTS").map_or(4_000, |count| count.parse().unwrap());
    let mut wrong = Vec::new();
    for seed in 0..count {
        let script = Scripts(seed).script();
        if let Err(difference) = check(&script) {
            wrong.push(format!("seed {seed}: {difference}"));
        }
    }
    wrong.sort_by_key(String::len);
    let shown = wrong.len().min(8);
    assert!(
        wrong.is_empty(),
        "{} of {count} scripts\n{}",
        wrong.len(),
        wrong[..shown].join("\n")
    );
}
