"""Our keys: where they come from, and how only the model's provider gets them (security K1 to K3, P9)."""
