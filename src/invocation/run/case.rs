//! `case WORD in PATTERN) … ;; esac`: the way that the word chooses, or all that it may choose.

use super::super::Certainty;
use super::super::shell::{Kind, Piece, Token};
use super::list::length_of;
use super::variable::Variable;
use super::{DEEPEST, Next, Runner, Site, bare_text, pattern};

/// One `PATTERN | PATTERN) LIST ;;`.
struct Way<'t> {
    patterns: Vec<&'t Token>,
    list: &'t [Token],
}

/// A whole statement.
struct Case<'t> {
    word: &'t Token,
    ways: Vec<Way<'t>>,
    /// Whether a way goes on into the next one (`;&`, `;;&`).
    falls: bool,
}

/// What is chosen by.
enum Word {
    /// One of these texts.
    Among(Vec<String>),
    Unknown,
}

fn is_operator(token: Option<&Token>, text: &str) -> bool {
    matches!(token.map(|token| &token.kind), Some(Kind::Operator(operator)) if *operator == text)
}

impl<'t> Case<'t> {
    /// The statement whose `case` stands before `from`, and the index behind its `esac`.
    fn parse(tokens: &'t [Token], from: usize) -> Option<(Self, usize)> {
        let mut at = from;
        let lines = |mut at: usize| {
            while is_operator(tokens.get(at), "\n") {
                at += 1;
            }
            at
        };
        let word = tokens
            .get(at)
            .filter(|token| matches!(token.kind, Kind::Word { .. }))?;
        at = lines(at + 1);
        (tokens.get(at).and_then(bare_text)? == "in").then_some(())?;
        at += 1;
        let mut case = Self {
            word,
            ways: Vec::new(),
            falls: false,
        };
        loop {
            at = lines(at);
            let first = tokens.get(at)?;
            if bare_text(first) == Some("esac") {
                return Some((case, at + 1));
            }
            if is_operator(Some(first), "(") {
                at += 1;
            }
            let mut patterns = Vec::new();
            loop {
                match &tokens.get(at)?.kind {
                    Kind::Operator(")") => break,
                    Kind::Operator("|") => {}
                    Kind::Word { .. } | Kind::Assign { .. } => patterns.push(&tokens[at]),
                    _ => return None,
                }
                at += 1;
            }
            at += 1;
            let end = end_of_list(tokens, at)?;
            let list = &tokens[at..end];
            at = end;
            if is_operator(tokens.get(at), ";;") {
                at += 1;
                // `;;&`
                if is_operator(tokens.get(at), "&") {
                    case.falls = true;
                    at += 1;
                }
            }
            // `;&`
            if is_operator(tokens.get(at), ";") {
                case.falls = true;
                at += 2;
            }
            case.ways.push(Way { patterns, list });
        }
    }
}

/// The index of the `;;`, `;&` or `esac` that ends the list which begins at `from`.
fn end_of_list(tokens: &[Token], from: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let mut begins = true;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        let word = bare_text(token);
        if begins {
            match word {
                Some("case") => depth += 1,
                Some("esac") if depth == 0 => return Some(index),
                Some("esac") => depth -= 1,
                _ => {}
            }
        }
        let falls = || is_operator(Some(token), ";") && is_operator(tokens.get(index + 1), "&");
        if depth == 0 && (is_operator(Some(token), ";;") || falls()) {
            return Some(index);
        }
        begins = matches!(token.kind, Kind::Operator(_))
            || begins
                && matches!(
                    word,
                    Some("do" | "then" | "else" | "if" | "{" | "!" | "while" | "until")
                );
    }
    None
}

impl Runner<'_, '_> {
    /// Follows the statement whose `case` stands before `from`; the index behind its `esac`. Nothing of it runs where
    /// `runs` is false; where `passes` the whole of it is perhaps passed over.
    pub(super) fn case(
        &mut self,
        tokens: &[Token],
        from: usize,
        runs: bool,
        passes: bool,
        site: Site,
    ) -> (usize, Next) {
        let Some((case, end)) = Case::parse(tokens, from) else {
            self.give_up("the script: a case statement that is not read");
            return (tokens.len(), Next::Stop);
        };
        // Statements within statements search the same tokens again, and those that do not run are searched too.
        if !self.spend(length_of(&tokens[from..end])) {
            return (end, Next::Stop);
        }
        if !runs {
            return (end, Next::On);
        }
        if self.depth >= DEEPEST {
            self.give_up("scripts are nested too deeply");
            return (end, Next::Stop);
        }
        let word = if case.falls {
            Word::Unknown
        } else {
            self.chosen_by(case.word, site)
        };
        let (ways, chosen) = self.ways(&case, &word, site);
        self.depth += 1;
        let next = match ways.as_slice() {
            [list] if chosen && !passes => self.tokens(list, site),
            lists => {
                let passes = passes || !chosen;
                self.one_of(lists.iter(), passes, |runner, list| runner.tokens(list, site))
            }
        };
        self.depth -= 1;
        (end, next)
    }

    fn chosen_by(&mut self, word: &Token, site: Site) -> Word {
        let Kind::Word { pieces, .. } = &word.kind else {
            return Word::Unknown;
        };
        if let [
            Piece::Variable {
                name,
                otherwise: None,
                ..
            },
        ]
        | [
            Piece::Text(_),
            Piece::Variable {
                name,
                otherwise: None,
                ..
            },
        ] = pieces.as_slice()
            && let Variable::Either { texts, .. } = self.look_up(name)
        {
            let before = match pieces.as_slice() {
                [Piece::Text(before), _] => before.as_str(),
                _ => "",
            };
            return Word::Among(texts.iter().map(|text| format!("{before}{text}")).collect());
        }
        let word = self.joined(pieces, site);
        match word.certainty {
            Certainty::Known => Word::Among(vec![word.text.into_owned()]),
            _ => Word::Unknown,
        }
    }

    /// The lists that may run, and whether one of them does.
    fn ways<'t>(&mut self, case: &Case<'t>, word: &Word, site: Site) -> (Vec<&'t [Token]>, bool) {
        let mut ways = Vec::new();
        let mut open = match word {
            Word::Among(texts) => Some(texts.clone()),
            Word::Unknown => None,
        };
        for way in &case.ways {
            let mut fits = false;
            for pattern in &way.patterns {
                let pattern = self.pattern(pattern, site);
                if let (None, Some("*")) = (&open, pattern.as_deref()) {
                    ways.push(way.list);
                    return (ways, !case.falls);
                }
                let Some(texts) = &mut open else {
                    fits = true;
                    continue;
                };
                let cost = |pattern: &String| texts.iter().map(|text| pattern::cost(pattern, text)).sum();
                let cost: usize = pattern.as_ref().map_or(0, cost);
                let pattern = pattern.filter(|_| self.spend(cost + 1));
                // A text that surely fits is taken here; one that perhaps does goes on.
                texts.retain(|text| {
                    match pattern
                        .as_deref()
                        .and_then(|pattern| pattern::matches(pattern, text))
                    {
                        Some(true) => {
                            fits = true;
                            false
                        }
                        Some(false) => true,
                        None => {
                            fits = true;
                            true
                        }
                    }
                });
            }
            if fits {
                ways.push(way.list);
            }
            if open.as_ref().is_some_and(Vec::is_empty) {
                return (ways, true);
            }
        }
        (ways, false)
    }

    /// The text of a pattern; quoted parts of it stand for themselves.
    fn pattern(&mut self, token: &Token, site: Site) -> Option<String> {
        let (word, bare) = match &token.kind {
            Kind::Word { pieces, bare } => (self.joined(pieces, site), *bare),
            // `name=*`, which is an assignment elsewhere.
            Kind::Assign { name, append, value } => {
                let mut pieces = vec![Piece::Text(format!("{name}{}=", if *append { "+" } else { "" }))];
                pieces.extend(value.iter().cloned());
                (self.joined(&pieces, site), true)
            }
            _ => return None,
        };
        if word.certainty != Certainty::Known {
            return None;
        }
        let text = word.text.into_owned();
        // Which of its stars are quoted is not kept.
        (bare || pattern::is_plain(&text)).then_some(text)
    }
}
