"""The node's pipeline in this process: message by message, on topics of ROS, and from recorded bags."""
