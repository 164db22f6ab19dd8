use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::model::name::{Found, find};
use crate::model::{Confidence, Dtype, Format, Kind};

const KV_BYTES: &str = include_str!("kv-bytes.tsv");

fn catalogue() -> Catalogue {
    Catalogue::parse(EMBEDDED).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes of a token at 16 bits, in layers of full length and in others.
fn kv_bytes(model: &Model) -> (u64, u64) {
    if model.kind == Kind::Encoder {
        return (0, 0);
    }
    let layers = u64::from(model.num_hidden_layers);
    if let Some(latent) = model.latent {
        return (
            layers * u64::from(latent.kv_lora_rank + latent.qk_rope_head_dim) * 2,
            0,
        );
    }
    let attention = u64::from(model.attention_layers.unwrap_or(model.num_hidden_layers));
    let full = u64::from(
        model
            .full_attention_layers
            .unwrap_or(u32::try_from(attention).unwrap()),
    );
    // Layers of both kinds share in proportion: the last ones hold whole repetitions of the pattern.
    let caching = layers - u64::from(model.num_kv_shared_layers.unwrap_or(0));
    let own = |count: u64| {
        assert_eq!(count * caching % layers, 0, "{}", model.id);
        count * caching / layers
    };
    let row = |heads: u32, width: u32| u64::from(heads) * u64::from(width) * 2 * 2;
    let heads = model.num_key_value_heads;
    let full_row = row(
        model.num_global_key_value_heads.unwrap_or(heads),
        model.global_head_dim.unwrap_or(model.head_width()),
    );
    (
        own(full) * full_row,
        own(attention - full) * row(heads, model.head_width()),
    )
}

#[test]
fn the_embedded_catalogue_is_read_and_its_names_are_unique() {
    let catalogue = catalogue();
    assert!(catalogue.len() >= 146);
    assert_eq!(Catalogue::embedded().len(), catalogue.len());
    let mut seen = BTreeMap::new();
    for model in catalogue.iter() {
        assert!(!model.names.is_empty(), "{} has no name", model.id);
        assert!(!model.source.is_empty(), "{} has no source", model.id);
        assert_eq!(model.id, model.id.to_ascii_lowercase());
        assert_eq!(catalogue.get(&model.id.to_ascii_uppercase()), Some(model));
        for name in model.names.iter().chain([&model.id]) {
            let before = seen.insert(name.to_ascii_lowercase(), &model.id);
            assert_eq!(before, None, "{} and {before:?} claim {name}", model.id);
        }
        for name in model.publications.keys() {
            assert!(model.names.contains(name), "{name} is no name of {}", model.id);
        }
        let again: Model = serde_saphyr::from_str(&serde_json::to_string(model).unwrap()).unwrap();
        assert_eq!(&again, model);
    }
}

#[test]
fn every_id_and_name_leads_to_its_own_entry_and_context() {
    let catalogue = catalogue();
    for model in catalogue.iter() {
        for name in model.names.iter().chain([&model.id]) {
            let tail = name.rsplit('/').next().unwrap();
            for text in [
                name.clone(),
                format!("{tail}-GGUF"),
                format!("someone/{tail}-AWQ"),
            ] {
                if tail.ends_with("BF16") && text.ends_with("AWQ") {
                    continue;
                }
                match find(&catalogue, &text) {
                    Found::Known {
                        model: found,
                        positions,
                        how,
                        ..
                    } => {
                        assert_eq!(found.id, model.id, "{text}");
                        assert!(how.is_certain(), "{text}: {how}");
                        if text == *name {
                            let own = model
                                .publications
                                .get(name)
                                .and_then(|own| own.max_position_embeddings);
                            assert_eq!(positions, own.unwrap_or(model.max_position_embeddings), "{text}");
                        }
                    }
                    unknown @ Found::Unknown { .. } => panic!("{text}: {unknown:?}"),
                }
            }
        }
    }
}

#[test]
fn shapes_are_consistent() {
    for model in catalogue().iter() {
        let id = &model.id;
        assert_eq!(model.num_attention_heads % model.num_key_value_heads, 0, "{id}");
        if model.head_dim.is_none() && model.latent.is_none() {
            assert_eq!(model.hidden_size % model.num_attention_heads, 0, "{id}");
        }
        let attention = model.attention_layers.unwrap_or(model.num_hidden_layers);
        let recurrent = model.recurrent.map_or(0, |recurrent| recurrent.layers);
        assert!(attention + recurrent <= model.num_hidden_layers, "{id}");
        assert!(
            model.full_attention_layers.is_none_or(|full| full <= attention),
            "{id}"
        );
        if model.full_attention_layers.is_some_and(|full| full < attention) {
            assert!(
                model.sliding_window.is_some() || model.attention_chunk_size.is_some(),
                "{id}: nothing tells how far the other layers look back"
            );
        }
        if let Some(experts) = model.experts {
            assert!(experts.active <= experts.count && experts.every >= 1, "{id}");
            assert!(experts.first_dense < model.num_hidden_layers, "{id}");
        }
        assert!(model.max_position_embeddings >= 448, "{id}");
        let embedding = u64::from(model.vocab_size.unwrap_or(0)) * u64::from(model.hidden_size);
        assert!(model.parameters > embedding, "{id}");
        if model
            .architecture
            .as_ref()
            .is_some_and(|class| class.contains("VL"))
        {
            assert!(model.tower, "{id}");
        }
    }
}

#[test]
fn plain_shapes_account_for_their_parameters() {
    let mut checked = 0;
    for model in catalogue().iter() {
        let plain = matches!(
            model.architecture.as_deref(),
            Some(
                "LlamaForCausalLM"
                    | "Qwen2ForCausalLM"
                    | "Qwen3ForCausalLM"
                    | "Qwen3MoeForCausalLM"
                    | "MistralForCausalLM"
                    | "MixtralForCausalLM"
                    | "Phi3ForCausalLM"
                    | "GraniteForCausalLM"
            )
        );
        let (Some(inner), Some(words), Some(tied)) = (
            model.intermediate_size,
            model.vocab_size,
            model.tie_word_embeddings,
        ) else {
            continue;
        };
        if !plain {
            continue;
        }
        let hidden = u64::from(model.hidden_size);
        let heads = u64::from(model.num_attention_heads + model.num_key_value_heads);
        let attention = 2 * hidden * heads * u64::from(model.head_width());
        let feed = match model.experts {
            Some(experts) => 3 * hidden * u64::from(experts.intermediate_size) * u64::from(experts.count),
            None => 3 * hidden * u64::from(inner),
        };
        let embeddings = hidden * u64::from(words) * if tied { 1 } else { 2 };
        let sum = u64::from(model.num_hidden_layers) * (attention + feed) + embeddings;
        let off = sum.abs_diff(model.parameters);
        assert!(
            off * 500 <= model.parameters,
            "{}: {sum} against {}",
            model.id,
            model.parameters
        );
        checked += 1;
    }
    assert!(checked > 50);
}

#[test]
fn kv_bytes_of_a_token_are_those_of_the_facts() {
    let catalogue = catalogue();
    let mut checked = BTreeSet::new();
    for line in KV_BYTES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, full, window] = fields[..] else {
            panic!("{line}");
        };
        let model = catalogue.get(id).unwrap_or_else(|| panic!("{id} is gone"));
        assert_eq!(
            kv_bytes(model),
            (full.parse().unwrap(), window.parse().unwrap()),
            "{id}"
        );
        checked.insert(id);
    }
    for model in catalogue.iter() {
        assert!(
            checked.contains(model.id.as_str()) || model.kv_bytes_per_token.is_some(),
            "nothing checks {}",
            model.id
        );
    }
}

/// Fewest and most thousandths of a bit that a parameter takes in a file: what stays unpacked is in it.
const fn millibits(format: Format) -> (u64, u64) {
    match format {
        Format::Float32 => (32_000, 33_000),
        Format::Float16 | Format::GgufF16 => (15_500, 16_600),
        // Hybrids leave a quarter of their parameters at 16 bits.
        Format::Fp8 | Format::Int8 | Format::Gptq8 | Format::Bnb8 | Format::GgufQ8_0 => (7_600, 10_300),
        Format::Nvfp4 | Format::Mxfp4 | Format::Fp4Fp8 => (4_000, 8_600),
        Format::Gguf => (2_000, 16_600),
        _ => (3_900, 8_500),
    }
}

#[test]
fn sizes_of_files_are_plausible() {
    for model in catalogue().iter() {
        let stored = model.released.unwrap_or(match model.torch_dtype {
            Dtype::Float32 => Format::Float32,
            Dtype::Bfloat16 | Dtype::Float16 => Format::Float16,
        });
        let released = model.checkpoint_bytes.map(|bytes| (stored, bytes));
        let variants = model
            .variants
            .iter()
            .filter_map(|variant| Some((variant.format, variant.checkpoint_bytes?)));
        for (format, bytes) in released.into_iter().chain(variants) {
            let taken = u64::try_from(u128::from(bytes) * 8000 / u128::from(model.parameters)).unwrap();
            let (least, most) = millibits(format);
            assert!(
                (least..=most).contains(&taken),
                "{}: {taken} thousandths of a bit in {format}",
                model.id
            );
        }
    }
}

#[test]
fn own_entries_win() {
    let own = |id: &str, names: &[&str], layers| {
        let mut model = Catalogue::embedded().get("qwen3-8b").unwrap().clone();
        model.id = id.to_owned();
        model.names = names.iter().map(|&name| name.to_owned()).collect();
        model.publications.clear();
        model.num_hidden_layers = layers;
        model.confidence = Confidence::Verified;
        model
    };
    let catalogue = Catalogue::embedded().extended([
        own("qwen3-14b", &["acme/assistant"], 7),
        own(
            "acme-8b",
            &["Qwen/Qwen3-8B", "acme/assistant-8b", "/models/ours"],
            9,
        ),
        own("acme-8b", &["acme/second"], 11),
    ]);
    let layers = |text: &str| match find(&catalogue, text) {
        Found::Known { model, .. } => Some(model.num_hidden_layers),
        Found::Unknown { .. } => None,
    };
    assert_eq!(catalogue.len(), Catalogue::embedded().len() + 2);
    assert_eq!(
        catalogue.get("qwen3-14b").map(|model| model.num_hidden_layers),
        Some(7)
    );
    assert_eq!(
        catalogue.get("acme-8b").map(|model| model.num_hidden_layers),
        Some(9)
    );
    assert_eq!(layers("Qwen/Qwen3-8B"), Some(9));
    assert_eq!(layers("unsloth/Qwen3-8B-FP8"), Some(9));
    assert_eq!(layers("acme/assistant-8b-AWQ"), Some(9));
    assert_eq!(layers("acme/Assistant"), Some(7));
    assert_eq!(layers("/models/ours"), Some(9));
    assert_eq!(layers("Qwen/Qwen3-14B"), Some(7), "by the id that it took");
    assert_eq!(layers("Qwen/Qwen3-32B"), Some(64));
    assert!(Catalogue::default().is_empty());
    assert_eq!(
        find(&Catalogue::default(), "Qwen/Qwen3-8B").clone(),
        Found::Unknown {
            reason: crate::model::name::Reason::NotKnown,
            nearest: Vec::new()
        }
    );
}
