"""Model providers: one package per wire protocol."""
