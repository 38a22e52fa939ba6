"""What a checkpoint is made of: config.json, tensors, vocabulary, results.json; and where its bytes come from (hub/)."""
