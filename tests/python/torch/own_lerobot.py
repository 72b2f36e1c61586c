"""Differences between the versions of LeRobot that the tests know."""


def encoded_by(codec):
    """The arguments of `LeRobotDataset.create` that choose the codec of videos."""
    try:
        from lerobot.configs.video import RGBEncoderConfig
    except ImportError:  # 0.4.4
        return {"vcodec": codec}
    return {"rgb_encoder": RGBEncoderConfig(vcodec=codec)}
