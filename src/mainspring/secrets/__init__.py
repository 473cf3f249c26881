"""Our keys: where they come from, and how they are kept from everybody but the model's provider
(security K1 to K3, P9)."""
