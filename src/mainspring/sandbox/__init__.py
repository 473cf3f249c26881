"""Running commands so that they can change and read no more than they may."""
