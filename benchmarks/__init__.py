"""What Concur is measured with. Not part of the distribution."""
