"""Published decoders for Gaussian mixtures; nothing else imports them."""
