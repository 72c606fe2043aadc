"""Where root's policy is; apart from it, because `submit` must import little."""

POLICY_PATH = "/etc/andon/policy.toml"
