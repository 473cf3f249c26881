"""Runs commands so that they can read and change only what they may."""
