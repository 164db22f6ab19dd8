//! How much device memory a model will want under an engine's options: an interval with named parts.
