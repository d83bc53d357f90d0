"""Records of values between delimiters."""
