use super::*;

const ENTRY: &str = "\
- id: chat-7b
  names: [example-org/chat-7b]
  parameters: 7000000000
  numHiddenLayers: 32
  hiddenSize: 4096
  numAttentionHeads: 32
  numKeyValueHeads: 8
  maxPositionEmbeddings: 8192
  torchDtype: bfloat16
  source: its own files
  confidence: verified
";

fn error(text: &str) -> String {
    entries("own.yaml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn entries_stand_in_a_list_or_alone_in_yaml_or_json() {
    let list = entries("own.yaml", ENTRY.as_bytes()).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].id, "chat-7b");
    let json = serde_json::to_string(&list[0]).unwrap();
    assert_eq!(entries("own.json", json.as_bytes()).unwrap(), list);
    assert_eq!(
        entries("own.json", format!("[{json},{json}]").as_bytes())
            .unwrap()
            .len(),
        2
    );
    assert_eq!(entries("own.yaml", b"[]").unwrap(), []);
}

#[test]
fn sizes_that_no_model_has_are_told_with_file_place_and_field() {
    let entry = "\
- id: m
  parameters: 8030261248
  numHiddenLayers: 32
  hiddenSize: 4096
  numAttentionHeads: 32
  numKeyValueHeads: 8
  intermediateSize: 14336
  vocabSize: 128256
  maxPositionEmbeddings: 8192
  torchDtype: bfloat16
  source: s
  confidence: verified
";
    assert_eq!(entries("f", entry.as_bytes()).unwrap().len(), 1);
    for (from, to, told) in [
        (
            "numHiddenLayers: 32",
            "numHiddenLayers: 0",
            "own.yaml: [0].numHiddenLayers: is 0; write",
        ),
        (
            "parameters: 8030261248",
            "parameters: 0",
            "own.yaml: [0].parameters: is 0; write",
        ),
        (
            "parameters: 8030261248",
            "parameters: 8",
            "own.yaml: [0].parameters: is 8, and an embedding",
        ),
        (
            "Embeddings: 8192",
            "Embeddings: 0",
            "own.yaml: [0].maxPositionEmbeddings: is 0; write",
        ),
    ] {
        let text = error(&entry.replace(from, to));
        assert!(text.starts_with(told), "{text}");
    }
}

#[test]
fn what_is_no_entry_is_told_with_file_field_and_remedy() {
    assert!(error("5").starts_with("own.yaml: is no list of models"));
    assert!(error("\u{0}").starts_with("own.yaml: is no list of models"));
    assert!(
        error(&ENTRY.replace("7000000000", "seven")).starts_with("own.yaml: [0].parameters: invalid type")
    );
    assert!(error(&ENTRY.replace("hiddenSize", "hiddenSizes")).contains("own.yaml: [0].hiddenSizes"));
    assert!(error(&ENTRY.replace("id: chat-7b", "id: ''")).contains("[0].id: is empty"));
    assert!(error("5").contains("give a list of entries as `vramgate model add` prints them"));
    assert!(
        entries("own.yaml", b"\xff")
            .unwrap_err()
            .to_string()
            .contains("is no UTF-8 text")
    );
}

#[test]
fn an_engine_is_one_whose_arguments_are_read() {
    for name in ENGINES {
        assert_eq!(engine(name).unwrap().as_str(), name);
    }
    assert!(
        engine("ollama")
            .unwrap_err()
            .to_string()
            .contains("known are vllm, sglang")
    );
    assert!(
        engine("vlm")
            .unwrap_err()
            .to_string()
            .contains("did you mean vllm?")
    );
    assert!(engine(&"x".repeat(10_000)).unwrap_err().to_string().len() < 300);
}

#[test]
fn only_vllm_needs_a_release_that_is_a_number() {
    let mut notes = Vec::new();
    assert!(releases(Some("b4567"), Some(Engine::Vllm), &mut notes).is_err());
    assert!(notes.is_empty());
    assert_eq!(
        releases(Some("b4567"), Some(Engine::LlamaCpp), &mut notes).unwrap(),
        Releases::default()
    );
    assert!(notes[0].starts_with("the release is taken as unknown"));
}
