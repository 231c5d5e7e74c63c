"""What a model is written to: model files, ONNX graphs."""
