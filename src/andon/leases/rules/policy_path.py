"""The path of root's policy; a separate module, because `submit` must import little."""

POLICY_PATH = "/etc/andon/policy.toml"
