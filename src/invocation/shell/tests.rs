use super::*;

fn words(script: &str) -> Vec<String> {
    let (tokens, reason) = lex(script);
    assert_eq!(reason, None, "{script}");
    let text = |pieces: &[Piece]| {
        pieces
            .iter()
            .map(|p| format!("{p:?}"))
            .collect::<Vec<_>>()
            .join("+")
    };
    tokens
        .iter()
        .filter(|token| {
            !matches!(
                token.kind,
                Kind::Into { .. } | Kind::From { .. } | Kind::HereDocument { .. }
            )
        })
        .map(|token| match &token.kind {
            Kind::Into { .. } | Kind::From { .. } | Kind::HereDocument { .. } => String::new(),
            Kind::Word { pieces, .. } => match pieces.as_slice() {
                [Piece::Text(text)] => text.clone(),
                other => text(other),
            },
            Kind::Operator(operator) => (*operator).to_owned(),
            Kind::Assign { name, .. } => format!("{name}=…"),
            Kind::AssignArray { name, items, .. } => format!("{name}=({})", items.len()),
        })
        .collect()
}

#[test]
fn quotes_comments_and_continuations() {
    assert_eq!(
        words("a 'b c' \"d \\\"e\" f\\ g # no\nh \\\n  i#j"),
        ["a", "b c", "d \"e", "f g", "\n", "h", "i#j"]
    );
}

#[test]
fn redirections_and_here_documents_are_no_words() {
    assert_eq!(
        words("cat <<'EOF' > /tmp/x 2>&1\nvllm serve no\nEOF\nvllm serve m &> log &"),
        ["cat", "\n", "vllm", "serve", "m", "&"]
    );
}

#[test]
fn here_documents_keep_their_text_beside_what_follows_on_the_line() {
    let (tokens, _) = lex("cat > f <<-EOF && run <<'X'\n\ta $B\n\tEOF\nc $D\nX\nend");
    let bodies: Vec<_> = tokens
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::HereDocument { body, .. } => Some(body.len()),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [3, 1]);
    assert!(matches!(&tokens[1].kind, Kind::Into { append: false, .. }));
}

#[test]
fn a_place_that_nobody_filled_in_is_one_word() {
    let (tokens, _) = lex("run --model <model-path> --x <in >out");
    let kinds: Vec<bool> = tokens
        .iter()
        .map(|token| matches!(token.kind, Kind::Word { .. }))
        .collect();
    assert_eq!(kinds, [true, true, true, true, false, false]);
}

#[test]
fn arrays_and_assignments() {
    assert_eq!(
        words("A=(x 'y z')\nA+=( --b )\nB=c d"),
        ["A=(2)", "\n", "A=(1)", "\n", "B=…", "d"]
    );
}

#[test]
fn unclosed_forms_say_so_and_never_panic() {
    for script in [
        "'", "\"a", "$(", "${", "$((1)", "`", "a $'", "x <<EOF", "é$", "\\",
    ] {
        let _ = lex(script);
    }
    assert_eq!(lex("echo \"a").1, Some(UNCLOSED));
}

#[test]
fn quotes_and_comments_within_expansions_are_passed() {
    for script in [
        "a $(echo ')' # it's\n) x",
        "a \"$(echo \")\")\" x",
        "a ${A:-\"}\"} x",
        "a $(b \"$(c ')')\") x",
    ] {
        assert_eq!(words(script).len(), 3, "{script}");
    }
}

#[test]
fn pipes_to_programs_and_slices_are_read() {
    for script in [
        "a > >(tee -a /log) 2>&1",
        "exec > >(tee \"/x)\") 2>&1",
        "a <(b) <(c 'd)')",
        "b < <(c)",
    ] {
        assert_eq!(lex(script).1, None, "{script}");
    }
    let (tokens, _) = lex("a \"${@:2}\" ${X[@]:1:3} ${X[@]:$N}");
    let pieces: Vec<&Piece> = tokens
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word { pieces, .. } => pieces.last(),
            _ => None,
        })
        .collect();
    assert!(matches!(
        pieces[1],
        Piece::Slice {
            from: 2,
            count: None,
            quoted: true,
            ..
        }
    ));
    assert!(matches!(
        pieces[2],
        Piece::Slice {
            from: 1,
            count: Some(3),
            ..
        }
    ));
    assert!(matches!(pieces[3], Piece::Unreadable { .. }));
}
